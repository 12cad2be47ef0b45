"""Whether the far end shows typed text: echoes of all kinds, and their absence. What is not certain counts as hidden."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.echo_watch import EchoWatch, TypedPiece
from ptyctl.core.secret_masker import ECHO_TIMEOUT_S
from ptyctl.platforms import UNKNOWN_DEVICE
from tests.cost import lines_of

PROMPT = b"ann@box:~$ "
QUESTION = "密码：".encode()
SECRET = "Geheim-7712-x"
HIDDEN = [f"{SECRET}\r"]


class FarEnd:
    """A watch with what was typed and shown so far."""

    def __init__(self, row: bytes = PROMPT) -> None:
        self.watch = EchoWatch(UNKNOWN_DEVICE.is_prompt, UNKNOWN_DEVICE.may_ask)
        self.row, self.now = row, 0.0
        self.pieces: list[TypedPiece] = []

    def type(self, text: str) -> FarEnd:
        self.pieces += self.watch.typed(text.encode(), self.row, self.now)
        return self

    def show(self, text: str | bytes) -> FarEnd:
        data = text.encode() if isinstance(text, str) else text
        self.watch.received(data, 80, self.now)
        self.row = (self.row + data).rpartition(b"\n")[2]
        return self

    def texts(self, shown: bool | None) -> list[str]:
        return [piece.data.decode() for piece in self.pieces if piece.shown is shown and piece.is_text]


def echoed(far_end: FarEnd, text: str, piece: int = 1) -> FarEnd:
    for begin in range(0, len(text), piece):
        part = text[begin : begin + piece]
        far_end.type(part)
        far_end.show(part.replace("\r", "\r\n"))
    return far_end


def test_echoed_line_is_shown_and_line_without_echo_is_hidden() -> None:
    assert FarEnd().type("show version\r").show("show version\r\nIOS\r\nsw1#").texts(True) == ["show version\r"]
    far_end = FarEnd(QUESTION).type(f"{SECRET}\r")
    assert (far_end.texts(None), far_end.texts(True)) == (HIDDEN, [])
    far_end.show("\r\n13\r\n$ ")
    assert (far_end.texts(False), far_end.watch.take_secrets(), far_end.watch.active) == (HIDDEN, [SECRET.encode()], False)


def test_asterisks_are_no_echo() -> None:
    assert FarEnd(b"PIN: ").type(f"{SECRET}\r").show("*" * len(SECRET) + "\r\n> ").texts(False) == HIDDEN
    assert FarEnd(b"PIN: ").type("***\r").show("***\r\n> ").texts(True) == []


def test_line_typed_key_by_key_is_shown_by_keys_or_hidden_as_a_whole() -> None:
    assert "".join(echoed(FarEnd(), "uname -a\r").texts(True)) == "uname -a"
    far_end = FarEnd(QUESTION)
    for key in SECRET:
        far_end.type(key)
    assert "".join(far_end.type("\r").show("\r\nLast login\r\n$ ").texts(False)) == SECRET


def test_late_echo_in_pieces_is_found_until_the_time_limit() -> None:
    far_end = FarEnd().type("uptime\r")
    for key in "uptime":
        far_end.now += 1.5
        far_end.show(key)
    assert far_end.show("\r\n").texts(True) == ["uptime\r"]
    far_end = FarEnd().type("uptime\r")
    far_end.now += ECHO_TIMEOUT_S
    assert far_end.show("uptime\r\n").texts(False) == ["uptime\r"]


def test_two_lines_at_once_are_decided_one_by_one() -> None:
    far_end = FarEnd(b"login: ").type(f"ann\r{SECRET}\r")
    far_end.show("ann\r\nPassword: ").show("\r\nLast login: today\r\nann@box:~$ ")
    far_end.now += ECHO_TIMEOUT_S
    far_end.watch.expire(far_end.now)
    assert (far_end.texts(True), far_end.texts(False)) == (["ann\r"], HIDDEN)


def test_lines_typed_ahead_are_shown_at_their_prompts() -> None:
    far_end = FarEnd().type("cd /tmp\r").type("ls\r").type("true\r")
    far_end.show("cd /tmp\r\nann@box:/tmp$ ls\r\na  b\r\nann@box:/tmp$ true\r\nann@box:/tmp$ ")
    assert far_end.texts(True) == ["cd /tmp\r", "ls\r", "true\r"]


def test_password_typed_ahead_of_its_question_is_hidden_though_the_reply_ends_with_it() -> None:
    far_end = FarEnd().type("sudo id\r").type("admin\r").type("ls\r")
    far_end.show("sudo id\r\n[sudo] Passwort: \r\nWillkommen admin\r\nadmin\r\nann@box:~$ ls\r\n")
    assert (far_end.texts(True), far_end.texts(False)) == (["sudo id\r", "ls\r"], ["admin\r"])


def test_lines_for_a_program_without_prompts_are_shown() -> None:
    assert FarEnd(b"").type("one\rtwo\r").show("one\r\ntwo\r\n").texts(True) == ["one\r", "two\r"]


def test_program_that_prints_the_password_does_not_make_it_shown() -> None:
    assert FarEnd(QUESTION).type(f"{SECRET}\r").show(f"\r\n{SECRET}\r\n$ {SECRET}\r\n").texts(True) == []


def test_log_line_before_the_echo_at_a_prompt_does_not_hide_it() -> None:
    far_end = FarEnd(b"sw1#").type("show clock\r")
    assert far_end.show("\r\n%SYS-5-CONFIG: done\r\nsw1#show clock\r\n12:00\r\nsw1#").texts(True) == ["show clock\r"]


def test_repainted_echo_with_colours_suggestion_and_right_prompt_is_shown() -> None:
    fish = "\x1b[31ml\x1b[30m\x1b[90ms -la\x1b[5D\x1b[m\b\x1b[32mls\x1b[m\x1b[K\r\n"
    assert FarEnd(b"ann@box ~> ").type("ls\r").show(fish).texts(True) == ["ls\r"]
    right = b"% \x1b[60C12:00\x1b[66D"
    assert FarEnd(right).type("ls\r").show("l\bls\r\r\nfile\r\n").texts(True) == ["ls\r"]


def test_erased_and_completed_text_is_compared_with_what_the_line_shows() -> None:
    assert FarEnd().type("lx\x7fs\r").show("lx\b \bs\r\n").texts(True) == ["lx\x7fs\r"]
    assert FarEnd().type("oops\x15ls\r").show("oops\x1b[4D\x1b[Kls\r\n").texts(True) == ["oops\x15ls\r"]
    assert FarEnd().type("cat fi\t").show("cat file ").texts(True) == ["cat fi\t"]


def test_keys_without_text_are_shown_at_once() -> None:
    for keys in ("\r", "\x03", "\t", "\x1b[A", "\x1bOP", "\x15"):
        assert [piece.shown for piece in FarEnd().type(keys).pieces] == [True]


def test_line_after_the_end_of_input_of_a_program_is_shown_at_the_prompt() -> None:
    far_end = FarEnd(b"").type("\x04").show("ann@box:~$ ").type("ls\r").show("ls\r\nfile\r\n")
    assert far_end.texts(True) == ["ls\r"]


def test_keys_of_a_full_screen_program_are_hidden() -> None:
    far_end = FarEnd(b"\x1b[?1049h\x1b[H~\x1b[2;1H").type(":wq").show("\x1b[24;1H:wq\x1b[1;1H")
    far_end.now += ECHO_TIMEOUT_S
    far_end.watch.expire(far_end.now)
    assert far_end.texts(True) == []


@given(st.text("abcäß密 x1-", min_size=1, max_size=20).filter(lambda text: bool(text.strip())), st.integers(1, 5))
def test_any_line_echoed_in_any_pieces_is_shown(text: str, size: int) -> None:
    far_end = FarEnd().type(f"{text}\r")
    echo = f"{text}\r\nout\r\n".encode()
    for begin in range(0, len(echo), size):
        far_end.show(echo[begin : begin + size])
    assert far_end.texts(True) == [f"{text}\r"]


@given(
    st.text("abcdefgh*:$# ", min_size=1, max_size=12).filter(lambda text: bool(text.strip())),
    st.lists(st.text("abcdefgh*:$# ", max_size=12), max_size=4),
    st.booleans(),
    st.sampled_from(["Kennwort: ", "Code : ", "PIN? ", "密码："]),
)
def test_secret_without_echo_is_never_shown(secret: str, replies: list[str], by_key: bool, question: str) -> None:
    """Whatever the far end prints below the question."""
    far_end = FarEnd(question.encode())
    for part in [*secret, "\r"] if by_key else [f"{secret}\r"]:
        far_end.type(part)
    far_end.show("\r\n" + "\r\n".join([*replies, secret, f"$ {secret}"]) + "\r\n")
    assert far_end.texts(True) == []


@pytest.mark.parametrize("size", [1, 3, 100])
def test_more_output_than_is_examined_hides_the_text(size: int) -> None:
    far_end = FarEnd().type("y")
    for _ in range(20_000 // size + 1):
        far_end.show("x" * size)
    assert (far_end.texts(False), far_end.watch.active) == (["y"], False)


def test_echo_is_found_before_much_output_of_the_same_read() -> None:
    assert FarEnd().type("cat big\r").show("cat big\r\n" + "a row of the file\r\n" * 4000).texts(True) == ["cat big\r"]


def test_many_lines_at_once_are_shown_though_their_echo_is_larger_than_what_is_examined() -> None:
    lines = [f"line {number} of a pasted file\r" for number in range(2000)]
    far_end = FarEnd().type("".join(lines))
    for begin in range(0, len(lines), 100):
        far_end.show("".join(lines[begin : begin + 100]).replace("\r", "\r\n"))
    assert far_end.texts(True) == lines


def test_cost_of_output_below_many_typed_lines_does_not_grow_with_their_number() -> None:
    def cost(count: int) -> int:
        far_end = FarEnd().type("".join(f"line {number}\r" for number in range(count)))
        return lines_of(lambda: far_end.show("other\r\n" * 5000))

    assert cost(3200) < 8 * cost(200)


@pytest.mark.parametrize("erase", ["\x15", "\x17", "\x7f" * len(SECRET)])
@pytest.mark.parametrize("end", ["\r", "\x03"])
@pytest.mark.parametrize("together", [False, True])
def test_text_without_echo_that_is_erased_stays_hidden(erase: str, end: str, together: bool) -> None:
    far_end = FarEnd(QUESTION)
    for keys in [SECRET + erase + end] if together else [SECRET, erase, end]:
        far_end.type(keys)
    far_end.show(b"\r\nwrong\r\n" + QUESTION)
    assert SECRET not in "".join(far_end.texts(True))
    assert "".join(far_end.texts(False)).startswith(SECRET)


def test_erased_text_is_shown_with_the_echo_of_the_rest() -> None:
    assert FarEnd().type("nope\x15uptime\r").show("uptime\r\n").texts(True) == ["nope\x15uptime\r"]
