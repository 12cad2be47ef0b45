"""Address and token options of the HTTP endpoint."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from fixtures.servers.programs import free_port
from ptyctl.controller.tokens import make_token
from ptyctl.http.access import AccessError, Address, find_token, open_listener, parse_listen
from ptyctl.http.origins import is_loopback


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8765", Address("127.0.0.1", 8765)),
        ("127.8.8.8:0", Address("127.8.8.8", 0)),
        ("localhost:80", Address("127.0.0.1", 80)),
        ("LocalHost:80", Address("127.0.0.1", 80)),
        ("[::1]:8765", Address("::1", 8765)),
    ],
)
def test_parse_listen_loopback_returns_address(text: str, address: Address) -> None:
    assert parse_listen(text) == address


def test_address_str_equals_parsed_text() -> None:
    assert [str(parse_listen(text)) for text in ("127.0.0.1:1", "[::1]:1")] == ["127.0.0.1:1", "[::1]:1"]


@pytest.mark.parametrize("text", ["0.0.0.0:8765", "192.0.2.1:8765", "[::]:8765", "example.com:8765", "[2001:db8::1]:1"])
def test_parse_listen_other_address_raises_with_tunnel_command(text: str) -> None:
    with pytest.raises(AccessError, match=r"loopback only.*tunnel to it: ssh -L"):
        parse_listen(text)


@pytest.mark.parametrize("text", ["", "8765", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", "::1:80", "a b"])
def test_parse_listen_invalid_text_raises(text: str) -> None:
    with pytest.raises(AccessError, match=r"HOST:PORT|loopback only"):
        parse_listen(text)


@pytest.mark.parametrize("host", ["evil.localhost.example", "localhost.", "127.0.0.1.example", "", "2130706433", "0x7f000001"])
def test_is_loopback_lookalike_returns_false(host: str) -> None:
    assert not is_loopback(host)


def test_open_listener_port_in_use_raises_with_next_step() -> None:
    port = free_port()
    with open_listener(Address("127.0.0.1", port)) as holder:
        assert holder.getsockname()[1] == port
        with pytest.raises(AccessError, match=rf"127\.0\.0\.1:{port}: the port is in use; choose another .*ss -ltnp"):
            open_listener(Address("127.0.0.1", port))


def test_open_listener_foreign_address_raises() -> None:
    with pytest.raises(AccessError, match="choose another address"):
        open_listener(Address("192.0.2.1", 0))


def token_file(folder: Path, content: str, mode: int = 0o600) -> Path:
    file = folder / "token"
    file.write_text(content)
    file.chmod(mode)
    return file


def test_find_token_prefers_file_to_environment(tmp_path: Path) -> None:
    assert find_token(token_file(tmp_path, "from-file\n"), "from-env") == "from-file"
    assert find_token(None, "from-env") == "from-env"
    assert find_token(None, None) is None
    assert find_token(None, "") is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o777, 0o610])
def test_find_token_readable_by_others_raises_with_chmod(tmp_path: Path, mode: int) -> None:
    file = token_file(tmp_path, "secret-token", mode)
    with pytest.raises(AccessError, match=f"{mode:04o}.*chmod 600 {file}") as refused:
        find_token(file, None)
    assert "secret-token" not in str(refused.value)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_find_token_private_file_returns_token(tmp_path: Path, mode: int) -> None:
    assert find_token(token_file(tmp_path, "  t0ken \n", mode), None) == "t0ken"


def test_find_token_missing_or_empty_file_raises(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="No such file"):
        find_token(tmp_path / "none", None)
    with pytest.raises(AccessError, match="is empty"):
        find_token(token_file(tmp_path, "\n"), None)
    with pytest.raises(AccessError, match="Is a directory"):
        find_token(tmp_path, None)


@pytest.mark.parametrize("token", ["two words", "größe", "line\nline", "bell\a"])
def test_find_token_invalid_for_header_raises_without_repeating_it(tmp_path: Path, token: str) -> None:
    for refused in (lambda: find_token(None, token), lambda: find_token(token_file(tmp_path, token), None)):
        with pytest.raises(AccessError, match="one word of printable ASCII") as error:
            refused()
        assert token not in str(error.value)


def test_make_token_returns_distinct_long_tokens() -> None:
    assert make_token() != make_token()
    assert len(make_token()) >= 43
    assert find_token(None, make_token())


def test_open_listener_names_protocol_so_that_asyncio_sets_nodelay() -> None:
    """asyncio sets TCP_NODELAY only on a socket that names its protocol; without it an answer over HTTP takes 40 ms more."""
    with open_listener(Address("127.0.0.1", 0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP
