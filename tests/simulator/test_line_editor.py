"""Key decoding and line editing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.simulator.line_editor import MAX_LINE, Key, KeyDecoder, LineEditor, repaint
from tests.simulator.screen_rows import screen_rows


def decoded(*pieces: bytes) -> list[Key | str]:
    decoder = KeyDecoder()
    return [key for piece in pieces for key in decoder.feed(piece)]


class TestKeys:
    @pytest.mark.parametrize("enter", [b"\r", b"\n", b"\r\n", b"\r\0"])
    def test_decoder_merges_line_end_variants_to_one_enter(self, enter: bytes) -> None:
        assert decoded(b"a" + enter + b"b" + enter + enter) == ["a", Key.ENTER, "b", Key.ENTER, Key.ENTER]

    @pytest.mark.parametrize("sequence", [b"\x1b[A", b"\x1bOA", b"\x1b[1;5C", b"\x1b[200~", b"\x1bb", b"\x01", b"\x05", b"\0"])
    def test_decoder_ignores_unsupported_keys(self, sequence: bytes) -> None:
        assert decoded(b"a" + sequence + b"b") == ["a", "b"]

    def test_decoder_keeps_enter_after_lone_escape(self) -> None:
        assert decoded(b"\x1b\r\x1b[1\r") == [Key.ENTER, Key.ENTER]

    def test_decoder_preserves_bytes_beyond_ascii(self) -> None:
        keys = decoded("ü".encode())
        assert "".join(str(key) for key in keys).encode("utf-8", "surrogateescape") == "ü".encode()

    @given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\0", b"\x1b", b"[", b"O", b"1", b"A", b"\x03", b"\xff"])))
    def test_decoder_does_not_depend_on_splits(self, pieces: list[bytes]) -> None:
        assert decoded(*pieces) == decoded(b"".join(pieces))


class TestEditor:
    @given(st.text("ab $", max_size=12), st.text("ab $", max_size=12))
    def test_repaint_shows_new_text(self, before: str, after: str) -> None:
        assert screen_rows(before + repaint(before, after)) == [after.rstrip()]

    @given(st.text("ab $", max_size=12), st.text("ab $", max_size=12))
    def test_repaint_leaves_cursor_at_end(self, before: str, after: str) -> None:
        assert screen_rows(before + repaint(before, after) + "|") == [after + "|"]

    @pytest.mark.parametrize(
        ("keys", "line"),
        [
            (["a", "b", Key.BACKSPACE], "a"),
            ([Key.BACKSPACE], ""),
            ([*"ab cd ", Key.CTRL_W], "ab "),
            ([*"ab", Key.CTRL_W, Key.CTRL_W], ""),
            ([*"ab cd", Key.CTRL_U, "e"], "e"),
        ],
    )
    def test_editing_keys_change_text_and_screen(self, keys: list[Key | str], line: str) -> None:
        editor = LineEditor()
        echo = "".join(editor.type(key) for key in keys)
        assert editor.text == line
        assert screen_rows(echo + "|") == [line + "|"]

    def test_editor_at_maximum_length_rings_bell(self) -> None:
        editor = LineEditor()
        for _ in range(MAX_LINE):
            editor.type("x")
        assert editor.type("y") == "\a"
        assert editor.text == "x" * MAX_LINE
