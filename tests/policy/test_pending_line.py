"""The model of the typed line: cuts do not change what it submits, and a line that it knows is the line that a shell gets."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.servers.programs import require_program
from ptyctl.policy.pending_line import MAX_LINE, LineKeys, PendingLine, Piece

ENTER = b"\r"
#: Keys that are frequent in what people and agents type, and bytes that begin something longer.
KEYS = [
    *(bytes((byte,)) for byte in b"ab -.;\\'\"/?[O2~\0\t\r\n\x7f\x08\x17\x15\x03\x16\x0f\x04\x1a\x01\x0b\x12\x1b"),
    "é".encode(), "日".encode(), b"\r\n", b"\r\0", b"\x1b[A", b"\x1bOP", b"\x1b[3~", b"\x1bb", b"\x1b[200~", b"\x1b[201~",
]  # fmt: skip
key_sequences = st.lists(st.sampled_from(KEYS), max_size=30).map(b"".join)


def pieces_of(*chunks: bytes, keys: LineKeys | None = None) -> list[Piece]:
    model = PendingLine(keys) if keys is not None else PendingLine()
    return [piece for chunk in chunks for piece in model.feed(chunk)]


def lines(*chunks: bytes) -> list[str | None]:
    return [piece.line for piece in pieces_of(*chunks) if piece.submits]


@given(key_sequences, st.lists(st.integers(0, 120), max_size=6))
def test_input_cut_anywhere_submits_the_same_lines(data: bytes, cuts: list[int]) -> None:
    chunks = [data[begin:end] for begin, end in pairwise([0, *sorted(cuts), len(data)])]
    whole = [piece for piece in pieces_of(data) if piece.submits]
    assert [piece for piece in pieces_of(*chunks) if piece.submits] == whole


@given(key_sequences)
def test_pieces_joined_are_the_input(data: bytes) -> None:
    assert b"".join(piece.data for piece in pieces_of(data)) == data


@given(key_sequences)
def test_each_line_end_is_a_piece_of_one_byte_that_submits(data: bytes) -> None:
    for piece in pieces_of(data):
        assert piece.submits or not set(piece.data) & set(b"\r\n")
        assert not piece.submits or len(piece.data) == 1


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (b"reload\r", ["reload"]),
        (b"rex\x7fload\r", ["reload"]),
        (b"show\x15reload\r", ["reload"]),
        (b"show\x17reload\r", ["reload"]),
        (b"show a\x17reload\r", ["show reload"]),
        (b"\x03reload\r", ["reload"]),
        (b"#reload\x1b#", ["reload"]),
        (b"a\rb\nc\r\n", ["a", "b", "c", ""]),
        (b"a\r\0b\r\0", ["a", "b"]),
        ("é日\r".encode(), ["é日"]),
        (b"\x1b[200~a\nb\x1b[201~\r", ["a", "a\nb"]),
    ],
)
def test_line_of_known_keys_is_known(keys: bytes, expected: list[str]) -> None:
    assert lines(keys) == expected


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(b"rel\toad", id="completion"),
        pytest.param(b"\x1b[A", id="history"),
        pytest.param(b"\x12rel", id="reverse-search"),
        pytest.param(b"eload\x01r", id="cursor-to-begin"),
        pytest.param(b"eload\x1b[Hr", id="home-key"),
        pytest.param(b"rel\x16\x08oad", id="quoted-key"),
        pytest.param(b"rel\0oad", id="nul"),
        pytest.param(b"rm -rf / x\x08\x08\x08\x08tmp", id="backspace-that-only-some-shells-know"),
        pytest.param("é\x7f".encode(), id="erased-composed-character"),
        pytest.param(b"foo-bar\x17", id="word-that-editors-erase-differently"),
        pytest.param(b"rel\x1b", id="escape"),
        pytest.param(b"x\x19", id="yank"),
        pytest.param(b"a" * 70_000, id="too-long"),
    ],
)
def test_line_after_another_key_is_unknown(keys: bytes) -> None:
    assert lines(keys + ENTER)[-1] is None


@pytest.mark.parametrize("key", [b"\x7f", b"\x08", b"\x17", b"\x15", b"\x03"])
def test_key_without_a_certain_effect_makes_the_line_unknown(key: bytes) -> None:
    model = PendingLine(LineKeys(erase=frozenset()))
    assert [piece.line for piece in model.feed(b"reload" + key + ENTER) if piece.submits] == [None]


@pytest.mark.parametrize("key", [b"\x0f", b"\x04", b"\x1a", b"\x18", b"\x1ba"])
def test_key_that_submits_at_some_far_ends_is_judged_with_the_line(key: bytes) -> None:
    assert lines(b"reload" + key) == ["reload"]


@pytest.mark.parametrize(
    ("line", "expected"), [("echo $(reboot)", ["echo $(reboot)"]), ("echo `id`", ["echo `id`"]), ("echo $(re", [])]
)
def test_tab_runs_the_substitutions_of_a_line(line: str, expected: list[str]) -> None:
    assert lines(line.encode() + b"\t") == expected


@pytest.mark.parametrize(
    "command",
    [
        "print -z x",
        "print -f '%s' -z x",
        'print "-z" x',
        "true; print -nz x",
        "'print' -z x",
        "pushln x",
        "read -n 3 x",
        "read -k 3",
        "head -c 3",
        "dd",
        "dd of=x bs=1",
        "dd iffy",
        "commandline x",
        "stty iuclc",
        "stty cols 80 -icrnl",
        "true;stty start x stop y",
        "m=iuclc; stty $m",
    ],
)
def test_line_after_a_command_that_may_fill_it_is_unknown(command: str) -> None:
    assert lines(command.encode() + b"\rreload\rshow\r") == [command, None, None]


@pytest.mark.parametrize("command", ["stty -echo", "stty sane", "stty size", "stty cols 80 rows 24; start", "mystty iuclc"])
def test_line_after_harmless_modes_of_the_terminal_is_known(command: str) -> None:
    assert lines(command.encode() + b"\rreload\r") == [command, "reload"]


@pytest.mark.parametrize(
    "command",
    [
        "bind 'x: unix-line-discard'",
        "bindkey x kill-line",
        "stty kill x",
        "bind x kill-line",
        "true; builtin bindkey x kill-line",
        "if true; then bindkey x kill-line; fi",
        "b=bindkey; $b x kill-line",
        "sh -c 'stty -a; stty cols 80 kill x'",
        "set -o vi",
        "setopt VI",
        "true; shopt -so vi",
        "bindkey -v",
        "bind 'set editing-mode vi'",
        "fish_vi_key_bindings",
        "set -g fish_key_bindings fish_vi_key_bindings",
        # a part of each later line, or of some, is read by another command
        "PROMPT_COMMAND='read -n 1 c'",
        "precmd() { read -k 1 c }",
        "f () { head -c 1; }",
        "alias g='read -t 1 c'",
        "trap 'read -d x c' DEBUG",
        "PS1='$(dd bs=1 count=1)$ '",
        "precmd_functions+=(f); f() { sysread c }",
        "function f --on-event fish_prompt; read -n 1 c; end",
    ],
)
def test_lines_after_changed_keys_stay_unknown(command: str) -> None:
    model = PendingLine()
    list(model.feed(command.encode() + b"\rx"))
    model.confirm()
    assert model.line is None
    model.clear()
    assert model.line is None


@pytest.mark.parametrize(
    "command",
    [
        "bind 127.0.0.1 ::1",
        "stty cols 80",
        "stty cols 200; kill %1",
        "stty -a | grep erase",
        "mount --bind /a /b",
        "git log --grep bindkey",
        "git config set core.editor vi",
        "set -o vibrant",
        "cat zle.txt",
        "printf -- -z",
        "read -r x",
        "f() { read -r x; }",
        "alias h='head -n 5'",
        "precmd() { select c in a b; do break; done }",  # takes whole lines, as the shell does
        "dd if=a of=b",
        "dd of=b if=a",
        "head x",
        "stty -echo; x=" + "QUJD" * 10_000,
        "dd " * 10_000 + "if=x",
    ],
)
def test_line_after_another_command_is_known(command: str) -> None:
    assert lines(command.encode() + b"\rreload\r") == [command, "reload"]


def test_keys_after_reset_have_their_usual_effect() -> None:
    model = PendingLine()
    list(model.feed(b"stty kill x\r"))
    model.reset_keys()
    model.clear()
    assert model.line == ""


@pytest.mark.parametrize(
    "keys", [b"#reload\x1b0#", b"#reload\x1b[A\x1b0\x15#", b"reload\x1b0v", b"reload\x1bv", b"reload\x18\x05"]
)
def test_key_that_submits_in_the_command_mode_of_vi_is_judged(keys: bytes) -> None:
    *_, last = pieces_of(keys)
    assert (last.submits, last.data, last.line) == (True, keys[-1:], None)
    model = PendingLine()
    list(model.feed(keys[:-1]))
    assert model.may_be_submitted_by(keys[-1:])


def test_editor_that_a_key_of_vi_opens_makes_the_line_unreadable() -> None:
    model = PendingLine()
    list(model.feed(b"set -o vi\recho\x1b0"))
    assert (model.is_readable_at(b"#"), model.is_readable_at(b"v")) == (True, False)


def test_part_of_a_key_may_begin_the_command_mode_of_vi() -> None:
    *_, last = pieces_of(b"#reload\x1b[#")
    assert (last.submits, last.line) == (True, "reload")


def test_interrupt_of_typed_text_leaves_the_line_unknown_until_the_screen_shows_it() -> None:
    model = PendingLine()
    list(model.feed(b"re\x03load"))
    assert (model.line, model.typed) == (None, "load")
    model.confirm()
    assert model.line == "load"


def test_line_is_known_again_if_the_screen_shows_what_was_typed_since_a_line_end() -> None:
    model = PendingLine()
    list(model.feed(b"a\t\rshow"))
    assert (model.line, model.typed) == (None, "show")
    model.confirm()
    assert model.line == "show"
    list(model.feed(b"\x10\x15show"))  # the kill key may have left text
    model.confirm()
    assert (model.line, model.typed) == (None, "show")


def test_pending_part_of_a_key_makes_the_screen_unreadable() -> None:
    model = PendingLine()
    list(model.feed(b"rel\x1b\x1b"))
    assert not model.is_readable_at(ENTER)
    list(model.feed(b"x"))
    assert model.is_readable_at(ENTER)


def test_interrupt_ends_a_paste() -> None:
    model = PendingLine()
    list(model.feed(b"\x1b[200~reload\x03"))
    assert (model.is_pasting, model.line) == (False, None)


def test_quoted_return_leaves_the_line_unknown() -> None:
    assert lines(b"echo a\x16\r; reload\r") == [None, None]


@pytest.mark.parametrize("key", [b"\x03", b"\x15", ENTER])
def test_unknown_line_is_known_again_only_after_it_was_cleared(key: bytes) -> None:
    model = PendingLine()
    list(model.feed(b"a\t" + key))
    assert (model.line, model.perhaps_submitted) == (None, key == ENTER)
    model.clear()
    assert model.line == ""


def test_lines_since_the_last_prompt_are_kept_for_the_next_one() -> None:
    model = PendingLine()
    for piece in model.feed(b"for a in 1\rdo reboot\r"):
        if piece.line == "do reboot":
            assert model.continued == "for a in 1\n"
    model.clear()
    assert model.continued == ""


def test_piece_that_is_not_sent_is_not_taken() -> None:
    model = PendingLine()
    for piece in model.feed(b"reload\rshow\r"):
        if piece.submits:
            break
    assert model.line == "reload"


@contextmanager
def line_reader(command: list[str]) -> Iterator[int]:
    """A shell on a terminal that prints each line that its editor returns, in angle brackets."""
    leader, follower = pty.openpty()
    settings = termios.tcgetattr(follower)
    settings[3] &= ~termios.ISIG
    termios.tcsetattr(follower, termios.TCSANOW, settings)
    shell = subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, env={"TERM": "xterm", "HOME": "/nonexistent"}
    )
    os.close(follower)
    try:
        yield leader
    finally:
        shell.kill()
        shell.wait()
        os.close(leader)


def read_until(descriptor: int, pattern: re.Pattern[bytes]) -> bytes:
    """Read up to the pattern. Returns its first group."""
    received = b""
    while (found := pattern.search(received)) is None:
        received += os.read(descriptor, 65536)
    return found[1]


#: Each prints a numbered prompt when it has set up the terminal: keys that arrive earlier are edited by the kernel.
LINE_READERS = {
    "bash": r"""while IFS= read -e -r -p "($((n += 1)))" line; do printf '<<%s>>\n' "$line"; done""",
    "zsh": r"""while line=; vared -p "($((n += 1)))" line; do printf '<<%s>>\n' "$line"; done""",
    "dash": r"""while printf '(%s)' $((n += 1)); IFS= read -r line; do printf '<<%s>>\n' "$line"; done""",
}
#: Without Tab: its completion may ask a question, and lists files.
editor_keys = st.lists(
    st.sampled_from(
        [*(bytes((byte,)) for byte in b"ab -./"), b"\x7f", b"\x08", b"\x17", b"\x15", b"\x01", b"\x1b[D", b"\x1bb"]
    ),
    max_size=20,
).map(b"".join)


@pytest.mark.parametrize("shell", LINE_READERS)
def test_known_line_is_what_the_line_editor_of_a_shell_returns(shell: str) -> None:
    require_program(shell, shell)
    numbers = count(2)
    with line_reader([shell, *(["-f"] if shell == "zsh" else []), "-c", LINE_READERS[shell]]) as terminal:
        read_until(terminal, re.compile(rb"(\(1\))"))

        @given(editor_keys)
        def check(keys: bytes) -> None:
            known = lines(keys + ENTER)[-1]
            os.write(terminal, keys + ENTER)
            answer = re.compile(rb"<<(.*)>>\r\n(?s:.*)\(%d\)" % next(numbers))
            assert known in (None, read_until(terminal, answer).decode())

        check()


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (b":!ls\x1b", [(b"\x1b", ":!ls")]),
        (b"\x1b:!ls\x1b", [(b":", ""), (b"\x1b", None)]),
        (b"\x1b:w x\x1b", [(b":", ""), (b"\x1b", None)]),
        (b"\x1b[200~:!ls\x1b", [(b"\x1b", ":!ls")]),
        (b"some text\x1b", []),
        (b":!ls\x15\x1b", [(b"\x1b", "")]),
        (b":\x7f\x1b", [(b"\x1b", "")]),
        (b":\x03\x1b", []),
        (b":\r\x1b", [(b"\r", ":")]),
        (b"x" * (MAX_LINE + 1) + b"\x1b", [(b"\x1b", None)]),
    ],
)
def test_escape_after_a_command_of_vi_may_submit_it_in_an_editor(keys: bytes, expected: list[tuple[bytes, str | None]]) -> None:
    model = PendingLine(is_for_editor=True)
    assert [(piece.data, piece.line) for piece in model.feed(keys) if piece.submits] == expected
    at_prompt = PendingLine()
    assert all(piece.data != b"\x1b" for piece in at_prompt.feed(keys) if piece.submits)


@pytest.mark.parametrize("change", [PendingLine.put_after_text, PendingLine.lose])
def test_incomplete_line_after_text_that_the_shell_may_have_put_there_is_open(change: Callable[[PendingLine], None]) -> None:
    model = PendingLine()
    list(model.feed(b"touch \\"))
    change(model)
    list(model.feed(ENTER))
    assert (model.is_open, model.continued) == (True, "touch \\\n")


def test_line_that_was_read_from_the_screen_is_continued_once() -> None:
    model = PendingLine()
    model.put_after_text()
    list(model.feed(b"a '"))
    model.read("echo a '")
    list(model.feed(ENTER))
    assert (model.is_open, model.continued) == (True, "echo a '\n")
    list(model.feed(b"' b\r"))
    assert (model.is_open, model.continued) == (False, "echo a '\n' b\n")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (b"", False),
        (b"\x04", False),
        (b"\x01\x05\x0c", False),
        (b"l", True),
        (b"l\x04", True),
        (b"l\x7f", False),
        (b"l\r", False),
        (b"l\x15", False),
        (b"\x10", True),
        (b"\x10\x04", True),
        (b"\x10\x15", True),
        (b"\x10\r", False),
        (b"\t", True),
        (b"\x1b", True),
        (b"\x1b[A", True),
        (b"ls\x0f", True),
        (b"vared x\r", True),
        (b"\x16\r", True),
        (b"x" * (MAX_LINE + 1), True),
    ],
)
def test_line_may_have_text_unless_no_key_has_put_any_into_it(keys: bytes, expected: bool) -> None:
    model = PendingLine()
    list(model.feed(keys))
    assert model.may_have_text is expected


def test_line_that_something_else_may_have_changed_may_have_text_until_it_is_submitted() -> None:
    model = PendingLine()
    model.lose()
    assert model.may_have_text
    list(model.feed(b"\r"))
    assert not model.may_have_text
