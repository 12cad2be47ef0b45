from __future__ import annotations

import socket
from pathlib import Path

import pytest

from fixtures.servers.programs import free_port
from ptyctl.mcp.access import AccessError, Address, find_token, is_loopback, make_token, open_listener, parse_listen


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
def test_loopback_is_taken(text: str, address: Address) -> None:
    assert parse_listen(text) == address


def test_an_address_is_written_as_it_is_read() -> None:
    assert [str(parse_listen(text)) for text in ("127.0.0.1:1", "[::1]:1")] == ["127.0.0.1:1", "[::1]:1"]


@pytest.mark.parametrize("text", ["0.0.0.0:8765", "192.0.2.1:8765", "[::]:8765", "example.com:8765", "[2001:db8::1]:1"])
def test_other_addresses_are_refused_with_the_way_to_do_it(text: str) -> None:
    with pytest.raises(AccessError, match=r"loopback only.*tunnel to it: ssh -L"):
        parse_listen(text)


@pytest.mark.parametrize("text", ["", "8765", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", "::1:80", "a b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(AccessError, match=r"HOST:PORT|loopback only"):
        parse_listen(text)


@pytest.mark.parametrize("host", ["evil.localhost.example", "localhost.", "127.0.0.1.example", "", "2130706433", "0x7f000001"])
def test_what_only_looks_like_loopback_is_none(host: str) -> None:
    assert not is_loopback(host)


def test_a_port_in_use_is_told_with_the_next_step() -> None:
    port = free_port()
    with open_listener(Address("127.0.0.1", port)) as holder:
        assert holder.getsockname()[1] == port
        with pytest.raises(AccessError, match=rf"127\.0\.0\.1:{port}: the port is in use\. Choose another .*ss -ltnp"):
            open_listener(Address("127.0.0.1", port))


def test_an_address_of_no_interface_is_told() -> None:
    with pytest.raises(AccessError, match="Choose another address"):
        open_listener(Address("192.0.2.1", 0))


def token_file(folder: Path, content: str, mode: int = 0o600) -> Path:
    file = folder / "token"
    file.write_text(content)
    file.chmod(mode)
    return file


def test_the_file_goes_before_the_environment(tmp_path: Path) -> None:
    assert find_token(token_file(tmp_path, "from-file\n"), "from-env") == "from-file"
    assert find_token(None, "from-env") == "from-env"
    assert find_token(None, None) is None
    assert find_token(None, "") is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o777, 0o610])
def test_a_file_for_others_is_refused_with_the_chmod(tmp_path: Path, mode: int) -> None:
    file = token_file(tmp_path, "secret-token", mode)
    with pytest.raises(AccessError, match=f"{mode:04o}.*chmod 600 {file}") as refused:
        find_token(file, None)
    assert "secret-token" not in str(refused.value)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_of_ones_own_is_taken(tmp_path: Path, mode: int) -> None:
    assert find_token(token_file(tmp_path, "  t0ken \n", mode), None) == "t0ken"


def test_no_file_and_an_empty_one_are_told(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="No such file"):
        find_token(tmp_path / "none", None)
    with pytest.raises(AccessError, match="is empty"):
        find_token(token_file(tmp_path, "\n"), None)
    with pytest.raises(AccessError, match="Is a directory"):
        find_token(tmp_path, None)


@pytest.mark.parametrize("token", ["two words", "größe", "line\nline", "bell\a"])
def test_a_token_that_no_header_carries_is_refused_and_not_repeated(tmp_path: Path, token: str) -> None:
    for refused in (lambda: find_token(None, token), lambda: find_token(token_file(tmp_path, token), None)):
        with pytest.raises(AccessError, match="one word of printable ASCII") as error:
            refused()
        assert token not in str(error.value)


def test_made_tokens_differ_and_are_long() -> None:
    assert make_token() != make_token()
    assert len(make_token()) >= 43
    assert find_token(None, make_token())


def test_answers_do_not_wait_for_a_delayed_ack() -> None:
    """asyncio sets TCP_NODELAY only on a socket that names its protocol; without it an answer over HTTP takes 40 ms more."""
    with open_listener(Address("127.0.0.1", 0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP
