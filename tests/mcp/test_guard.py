"""Access control of the HTTP endpoint: 401 without the token, 403 for a foreign Host or Origin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse
from starlette.types import Message

from ptyctl.controller.tokens import Tokens
from ptyctl.http.bearer import BearerTokens
from ptyctl.http.origins import Origins
from ptyctl.mcp.guard import Guard

TOKEN = "correct-horse"
HOST = ("host", "127.0.0.1:8765")
BEARER = ("authorization", f"Bearer {TOKEN}")

Header = tuple[str, str]


async def asked(*headers: Header) -> tuple[int, dict[str, str], str]:
    """Return status, headers and body of the response to a request with exactly these headers."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": raw}
    tokens = BearerTokens(Tokens(None, TOKEN), lambda event, **fields: None)
    await Guard(PlainTextResponse("inside"), tokens, Origins())(scope, receive, send)
    start, *bodies = sent
    answered = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return start["status"], answered, b"".join(body["body"] for body in bodies).decode()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:1", "127.1.2.3:8765", "localhost:9000", "LOCALHOST", "[::1]:9000", "[::1]"]
)
@pytest.mark.parametrize("origin", [None, "http://localhost:3000", "https://127.0.0.1", "http://[::1]:80"])
async def test_loopback_request_with_token_passes(host: str, origin: str | None) -> None:
    origins = [("origin", origin)] if origin else []
    status, _, text = await asked(("host", host), BEARER, *origins)
    assert (status, text) == (200, "inside")


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER  "])
async def test_bearer_scheme_is_case_insensitive(scheme: str) -> None:
    assert (await asked(HOST, ("authorization", scheme + TOKEN)))[0] == 200


@pytest.mark.parametrize(
    ("authorization", "error"),
    [
        ([], ""),
        ([""], ""),
        (["Bearer"], ""),
        (["Bearer "], ""),
        ([f"Basic {TOKEN}"], ""),
        ([TOKEN], ""),
        ([f"Bearer {TOKEN} x"], ""),
        (["Bearer wrong", f"Bearer {TOKEN}"], ""),
        ([f"Bearer {TOKEN}", f"Bearer {TOKEN}"], ""),
        (["Bearer wrong"], 'error="invalid_token"'),
        ([f"Bearer {TOKEN}x"], 'error="invalid_token"'),
        ([f"Bearer {TOKEN[:-1]}"], 'error="invalid_token"'),
        ([f"Bearer {TOKEN.upper()}"], 'error="invalid_token"'),
        (["Bearer \u00fc\u00ff"], 'error="invalid_token"'),
    ],
)
async def test_request_without_valid_token_returns_401(authorization: list[str], error: str) -> None:
    status, headers, text = await asked(HOST, *[("authorization", value) for value in authorization])
    assert status == 401
    assert headers["www-authenticate"] == ", ".join(filter(None, ['Bearer realm="ptyctl"', error]))
    assert "unauthorized" in text
    assert TOKEN not in text


@pytest.mark.parametrize(
    "host",
    [
        [],
        [""],
        ["evil.example"],
        ["evil.example:8765"],
        ["127.0.0.1.evil.example"],
        ["localhost.evil.example"],
        ["evil.example@127.0.0.1"],
        ["192.0.2.1"],
        ["0.0.0.0"],
        ["[2001:db8::1]"],
        ["::1"],
        ["127.0.0.1:x"],
        ["127.0.0.1:"],
        ["127.0.0.1 evil.example"],
        ["127.0.0.1", "evil.example"],
    ],
)
async def test_foreign_host_with_token_returns_403(host: list[str]) -> None:
    status, _, text = await asked(*[("host", value) for value in host], BEARER)
    assert (status, "forbidden" in text) == (403, True)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://localhost.evil.example",
        "http://localhost@evil.example",
        "http://evil.example#localhost",
        "http://localhost/evil.example",
        "null",
        "",
        "file://",
        "chrome-extension://localhost",
    ],
)
async def test_foreign_origin_with_token_returns_403(origin: str) -> None:
    assert (await asked(HOST, BEARER, ("origin", origin)))[0] == 403
    assert (await asked(HOST, BEARER, ("origin", "http://localhost"), ("origin", origin)))[0] == 403


NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=30)


@given(NAMES, NAMES)
async def test_random_host_and_token_are_rejected(host: str, token: str) -> None:
    assert (await asked(("host", host), ("authorization", f"Bearer {token}")))[0] in {401, 403}
