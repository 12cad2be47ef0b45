"""Which values of Host and Origin a server accepts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.http.origins import Origin, Origins

PUBLIC = Origins(Origin.parse("https://console.example:8443"))


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("http://127.0.0.1", Origin("http", "127.0.0.1", 80)),
        ("https://Console.Example", Origin("https", "console.example", 443)),
        ("http://[::1]:9", Origin("http", "::1", 9)),
        ("null", None),
        ("", None),
        ("http://", None),
        ("ftp://127.0.0.1", None),
        ("http://a/", None),
        ("http://a@127.0.0.1", None),
        ("http://127.0.0.1:", None),
        ("http://127.0.0.1:123456", None),
        ("http://127.0.0.1 ", None),
        ("http://127.0.0.1\n", None),
    ],
)
def test_parse_origin(text: str, origin: Origin | None) -> None:
    assert Origin.parse(text) == origin


@given(
    st.sampled_from(["http", "https"]),
    st.from_regex(r"[a-z0-9.-]{1,20}|[0-9a-f:]*:[0-9a-f:]*", fullmatch=True),
    st.integers(0, 65535),
)
def test_parsed_origin_equals_its_text(scheme: str, host: str, port: int) -> None:
    origin = Origin(scheme, host, port)
    assert Origin.parse(str(origin)) == origin


@pytest.mark.parametrize(
    ("scheme", "host", "target"),
    [
        ("http", "127.0.0.1:8022", "http://127.0.0.1:8022"),
        ("http", "localhost:9", "http://localhost:9"),
        ("https", "127.0.0.1", "https://127.0.0.1"),
        ("http", "console.example:8443", "https://console.example:8443"),
        ("http", "CONSOLE.example:8443", "https://console.example:8443"),
        ("http", "console.example", None),
        ("http", "console.example:8443.evil.example", None),
        ("http", "evil.example", None),
        ("http", "evil.example@127.0.0.1", None),
    ],
)
def test_target_is_a_loopback_or_the_public_origin(scheme: str, host: str, target: str | None) -> None:
    found = PUBLIC.target(scheme, [host])
    assert (None if found is None else str(found)) == target


def test_request_with_no_or_two_hosts_has_no_target() -> None:
    assert PUBLIC.target("http", []) is None
    assert PUBLIC.target("http", ["127.0.0.1", "127.0.0.1"]) is None
    assert Origins().target("http", ["console.example:8443"]) is None


@pytest.mark.parametrize(("origin", "admitted"), [("http://localhost:3", True), ("https://console.example:8443", True)])
def test_pages_of_this_machine_and_the_public_one_are_admitted(origin: str, admitted: bool) -> None:
    assert PUBLIC.admits(origin) == admitted
    assert not PUBLIC.admits("http://console.example:8443")
    assert not PUBLIC.admits("null")
