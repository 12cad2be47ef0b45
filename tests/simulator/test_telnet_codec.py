"""Telnet decoding and option negotiation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.simulator.telnet_server import TelnetCodec
from tests.simulator.telnet_client import DO, DONT, ECHO, IAC, NAWS, NAWS_80_10, SB, SE, SGA, TTYPE, WILL, WONT


class TestCodec:
    def decoded(self, *pieces: bytes) -> tuple[bytes, bytes, list[tuple[int, int]]]:
        sizes: list[tuple[int, int]] = []
        codec = TelnetCodec(lambda cols, rows: sizes.append((cols, rows)))
        found = [codec.feed(piece) for piece in pieces]
        return b"".join(data for data, _ in found), b"".join(reply for _, reply in found), sizes

    def test_confirmed_options_are_not_answered(self) -> None:
        agreed = bytes([IAC, DO, ECHO, IAC, DO, SGA, IAC, WILL, NAWS])
        assert self.decoded(b"a" + agreed + b"b") == (b"ab", b"", [])

    def test_each_option_request_is_answered_once(self) -> None:
        asked = bytes([IAC, DO, TTYPE, IAC, WILL, TTYPE, IAC, WILL, SGA, IAC, WILL, SGA])
        assert self.decoded(asked)[1] == bytes([IAC, WONT, TTYPE, IAC, DONT, TTYPE, IAC, DO, SGA])

    def test_refusal_is_accepted_and_disable_confirmed(self) -> None:
        assert self.decoded(bytes([IAC, DONT, ECHO, IAC, WONT, NAWS]))[1] == b""
        assert self.decoded(bytes([IAC, DO, ECHO, IAC, DONT, ECHO, IAC, DONT, ECHO]))[1] == bytes([IAC, WONT, ECHO])

    def test_window_sizes_are_reported(self) -> None:
        wide = bytes([IAC, SB, NAWS, 1, IAC, IAC, 0, 24, IAC, SE])
        assert self.decoded(NAWS_80_10 + wide)[2] == [(80, 10), (511, 24)]

    @pytest.mark.parametrize("payload", [b"", b"\x18\0xterm", bytes([NAWS, 0, 80]), bytes([NAWS]) + b"x" * 1000])
    def test_other_subnegotiations_are_ignored(self, payload: bytes) -> None:
        assert self.decoded(bytes([IAC, SB]) + payload + bytes([IAC, SE]) + b"a") == (b"a", b"", [])

    def test_commands_are_decoded_to_keys(self) -> None:
        assert self.decoded(b"a\xff\xf3b\xff\xf4c\xff\xffd\xff\xf1")[0] == b"a\x1eb\x03c\xffd"

    def test_data_is_escaped(self) -> None:
        assert TelnetCodec.encode(b"a\xff") == b"a\xff\xff"

    pieces = st.sampled_from([b"a", b"\r", b"\xff", b"\xfd", b"\xfb", b"\xfa", b"\xf0", b"\x1f", b"\x01", NAWS_80_10])

    @given(st.lists(pieces, max_size=40))
    def test_decoding_does_not_depend_on_splits(self, pieces: list[bytes]) -> None:
        whole = b"".join(pieces)
        assert self.decoded(*(bytes([byte]) for byte in whole)) == self.decoded(whole)
