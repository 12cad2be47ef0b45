"""Access control of the HTTP endpoint: 401 without the token, 403 for a foreign Host or Origin."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse
from starlette.types import Message

from ptyctl.controller.tokens import TokenFile, Tokens, make_token
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.http.bearer import BearerTokens
from ptyctl.http.connection_limits import SEEN
from ptyctl.http.origins import Origins
from ptyctl.mcp.http import Guard

TOKEN = "correct-horse"
HOST = ("host", "127.0.0.1:8765")
BEARER = ("authorization", f"Bearer {TOKEN}")

Header = tuple[str, str]


def accepting(token: str, file: TokenFile | None = None, rows: list[dict[str, object]] | None = None) -> BearerTokens:
    """Return what accepts a token, and adds its rows to a list."""
    return BearerTokens(Tokens(file, token), lambda event, **fields: None if rows is None else rows.append(fields))


async def asked(
    *headers: Header, tokens: BearerTokens | None = None, address: str = "127.0.0.1", seen: set[object] | None = None
) -> tuple[int, dict[str, str], str]:
    """Return status, headers and body of the response to a request with exactly these headers.

    Args:
        seen: what was accepted on the connection before.
    """
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    state = {SEEN: set() if seen is None else seen}
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": raw, "client": (address, 1), "state": state}
    tokens = tokens or accepting(TOKEN)
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


async def guesses(tokens: BearerTokens, number: int, address: str = "127.0.0.1") -> list[int]:
    """Send wrong tokens, and return the statuses of the responses."""
    return [(await asked(HOST, ("authorization", f"Bearer x{n}"), tokens=tokens, address=address))[0] for n in range(number)]


async def test_eleventh_wrong_token_of_an_address_returns_429() -> None:
    rows: list[dict[str, object]] = []
    tokens = accepting(TOKEN, rows=rows)
    assert await guesses(tokens, 12) == 10 * [401] + 2 * [429]
    status, headers, text = await asked(HOST, ("authorization", "Bearer x"), tokens=tokens)
    assert (status, 0 < int(headers["retry-after"]) <= 60, headers["connection"]) == (429, True, "close")
    assert "too_many_requests" in text
    assert "www-authenticate" not in headers
    assert await guesses(tokens, 1, "192.0.2.1") == [401]
    assert rows[0] == {"via": "http", "why": "unknown token", "address": "127.0.0.1"}
    assert (await asked(HOST, tokens=tokens))[0] == 401, "a request without a token is no guess"


async def test_short_token_after_too_many_guesses_returns_429_on_new_connections_only() -> None:
    tokens, seen = accepting(TOKEN), set[object]()
    assert (await asked(HOST, BEARER, tokens=tokens, seen=seen))[0] == 200
    await guesses(tokens, 10)
    assert (await asked(HOST, BEARER, tokens=tokens))[0] == 429
    assert (await asked(HOST, BEARER, tokens=tokens, seen=seen))[0] == 200
    assert (await asked(HOST, BEARER, tokens=tokens, address="192.0.2.1"))[0] == 200


async def test_random_token_after_too_many_guesses_is_accepted(tmp_path: Path) -> None:
    file, own = TokenFile(tmp_path), make_token()
    named = file.create(Principal("ci", Kind.AGENT, Role.OPERATOR), None)
    tokens = accepting(own, file)
    await guesses(tokens, 20)
    for token in (own, named):
        assert (await asked(HOST, ("authorization", f"Bearer {token}"), tokens=tokens))[0] == 200


async def test_expired_token_is_no_guess(tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    expired = file.create(Principal("old", Kind.AGENT, Role.OPERATOR), 1)
    tokens = accepting(TOKEN, file)
    for _ in range(20):
        assert (await asked(HOST, ("authorization", f"Bearer {expired}"), tokens=tokens))[0] == 401
    assert (await asked(HOST, BEARER, tokens=tokens))[0] == 200
