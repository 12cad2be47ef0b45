"""Probes for a POSIX shell and its dialect, and installs shell integration in the shell that was found."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ptyctl.core.control_sequences import BRACKETED_PASTE
from ptyctl.core.hidden_ranges import ERASE_ROW
from ptyctl.core.marker import BEFORE_BUILTIN, EVALUATE, FISH_ERROR_PREFIX, FUNCTION, AsciiMarker, Marker, paste, shell_probes
from ptyctl.core.marks import PlacedMark
from ptyctl.core.shells import Dialect
from ptyctl.platforms import DeviceProfile
from ptyctl.session.device.prompt_wait import wait_for_prompt
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.terminal_state import SETTLE_S, TerminalState

from .shells import bash_hooks, zsh_hooks

#: How long a shell may take to answer a probe (seconds).
PROBE_WAIT_S = 5.0
#: A prompt that no answer to the probe precedes may answer an earlier Enter: it must stay for this time (seconds).
_UNANSWERED_S = 0.5
#: Older versions of bash do not support an array in PROMPT_COMMAND.
_MIN_BASH = (5, 1)
#: bash adds a line to its history before it runs it; HISTCONTROL may have kept the previous lines out. The loop removes ours.
#: Under `set -a` the nonces, one of them in the function that the probe has defined, would be in the environment of programs.
_BASH = """__ptyctl_nonce={nonce} __ptyctl_options=$BASHOPTS
builtin export -n __ptyctl_nonce; builtin export -nf __ptyctl 2>/dev/null
builtin shopt -u expand_aliases
[[ ${{HISTIGNORE-}} != ' *:*__ptyctl*' ]] || HISTIGNORE='*__ptyctl*'
while [[ $(builtin history 1) == *@(__ptyctl|'"'?(/)'$(('*'))${{'@(ZSH|BASH)_VERSION)* ]]
do builtin history -d -1 || break; done
{hooks}
__ptyctl_install
[[ $__ptyctl_options != *expand_aliases* ]] || builtin shopt -s expand_aliases
unset __ptyctl_options"""
_ZSH = """typeset -g __ptyctl_nonce={nonce}
{hooks}
__ptyctl_install"""
#: zsh decides whether to keep a line in its history when it has read it, so the option is set in an earlier line.
_ZSH_IGNORE_SPACE = " [[ -o histignorespace ]] || { __ptyctl_kept=1; setopt histignorespace; }"
#: The same before the first probe. zsh is recognised by how its line editor starts a prompt (attributes off, screen cleared
#: below). The words are expanded by a tab in the line editor and erased: no line is entered, so none is kept in the history.
_ZSH_PROMPT = b"\x1b[0m\x1b[27m\x1b[24m\x1b[J"
_ZSH_PROMPT_WITHIN_BYTES = 1024
_ZSH_EXPANSION = " ${${options[histignorespace]:#on}:+${__ptyctl_kept::=1}}${options[histignorespace]::=on}\t\x15"
#: The same in bash. Its line editor turns bracketed paste on at the start of the row of a prompt; fish sets its colours there.
_READLINE_PROMPT = re.compile(rb"(?:^|[\r\x07])\x1b\[\?2004h(?!.*\x1b\(B)", re.DOTALL)
_BASH_VERSION_KEYS, _BASH_VERSION = "\x18\x16\x15\x15", b"GNU bash, version"
_BASH_IGNORE_SPACE = " *:*__ptyctl*"
_BASH_EXPANSION = f' "${{HISTIGNORE:={_BASH_IGNORE_SPACE}}}"\x1b\x05\x15'
#: Size of one paste: zsh ends a paste in which no byte arrives for its KEYTIMEOUT, so each fits one write.
_PASTE_CHARACTERS = 1000
_ZSH_RESTORE = "(( ! ${+__ptyctl_kept} )) || { unset __ptyctl_kept; unsetopt histignorespace; }"
#: Texts in rows that a shell shows during the set-up, and rows of zsh: the end of an unfinished row, and the expanded words.
_ANSWERS = (FISH_ERROR_PREFIX.strip(), "in command substitution", _BASH_VERSION.decode(), FUNCTION)
_ZSH_ROWS = "%\n#\n1on"


@dataclass(frozen=True, slots=True)
class ProbedShell:
    """The result of a probe: a marker that the shell understands, or why there is none.

    `defined_at`: the counter of the line with which the shell has got the marker's function; None without that.
    """

    marker: Marker | None
    why: str | None = None
    defined_at: int | None = None


@contextmanager
def hidden_setup(terminal: TerminalState, profile: DeviceProfile) -> Iterator[None]:
    """Hide lines of ptyctl at a prompt, with what they print, from viewers: they see the prompt that is shown again after them.

    If none is shown, viewers see the last lines.
    """
    stream, before = terminal.stream, terminal.last_line()
    lines = stream.hold(before)
    lines.expect(_ZSH_ROWS, answers=_ANSWERS)
    try:
        yield
        if stream.ended is None and terminal.last_line() == before and not lines.has_other:
            stream.show(b"")
        elif stream.ended is None and terminal.prompt_certainty(profile) is not None:
            prompt = stream.last_raw_line()
            stream.show(ERASE_ROW + (prompt if FUNCTION.encode() not in prompt else terminal.last_line().encode()))
    finally:
        stream.release()


async def probe_shell(
    terminal: TerminalState, profile: DeviceProfile, nonce: str, writer: Writer, *, reinstall: Dialect | None = None
) -> ProbedShell:
    """Probe the program whose prompt is shown.

    An arithmetic echo is typed: only a POSIX shell prints the sum, and fish prints an error. A program that answers otherwise
    gets a line without words that a function can replace. A last line shows whether the private OSC sequence passes through,
    or the ASCII form is needed. `reinstall` is the dialect of a shell that has lost its prompt hooks: it installs them again.
    """
    left, right = random.randrange(10_000, 50_000), random.randrange(10_000, 50_000)
    (by_echo, sum_text), (by_error, error_text) = shell_probes(left, right)
    if reinstall is not None:
        by_echo = f" {FUNCTION}_install 2>/dev/null;{by_echo}"
    stream = terminal.stream
    prompts = stream.prompts.count
    dialect = _dialect(await _output_of(terminal, profile, by_echo, writer, sum_text), sum_text)
    has_marks = stream.prompts.count > prompts
    if dialect is None and has_marks:
        dialect = reinstall
    if dialect is None and terminal.prompt_certainty(profile) is not None:
        dialect = _dialect(await _output_of(terminal, profile, by_error, writer, sum_text), error_text)
    if dialect is None:
        return ProbedShell(None, "no POSIX shell answered here")
    marker = Marker(nonce, dialect)
    stream.expect_echo("", answers=(nonce,))
    if has_marks:
        return ProbedShell(marker)
    marks: list[PlacedMark] = []
    counter = stream.next_counter(nonce)
    unsubscribe = stream.subscribe(PlacedMark, marks.append)
    try:
        await _output_of(terminal, profile, marker.line(":", counter), writer)
    finally:
        unsubscribe()
    return ProbedShell(marker, defined_at=counter) if marks else ProbedShell(AsciiMarker(nonce, dialect))


async def _output_of(
    terminal: TerminalState, profile: DeviceProfile, line: str, writer: Writer, answer: str | None = None
) -> list[str]:
    """Type a line and return the lines that are printed until the prompt is shown again.

    A shell that has just started may show two prompts, the second one for an Enter that was pressed before. `answer`: a text
    that precedes the prompt after the line in a POSIX shell.
    """
    stream = terminal.stream
    begin, line_feeds = stream.spool_end, stream.line_feeds
    deadline = terminal.now() + PROBE_WAIT_S

    def output() -> str:
        return stream.read(begin, stream.spool_end).decode("utf-8", "replace")

    stream.expect_echo(line, answers=() if answer is None else (answer,))
    await terminal.gate.type(line + "\n", writer)
    while stream.ended is None and terminal.now() < deadline:
        certainty = terminal.prompt_certainty(profile)
        due = deadline
        if stream.line_feeds > line_feeds and certainty is not None:
            is_answered = answer is None or answer in (text := output()) or FISH_ERROR_PREFIX in text
            due = stream.last_data + ((0 if certainty == "exact" else SETTLE_S) if is_answered else _UNANSWERED_S)
            if terminal.now() >= due and await terminal.nothing_more():
                break
        await stream.wait(min(due, deadline))
    return output().split("\n")


def _dialect(lines: list[str], sum_text: str) -> Dialect | None:
    # bash prints PS0, which may have no line end, before the sum, and the reason of an error after it
    after = next((text.partition(sum_text)[2] for text in lines if sum_text in text), None)
    if after is None:
        return "fish" if any(text.startswith(FISH_ERROR_PREFIX) for text in lines) else None
    return "zsh" if after[:1].isdigit() else "posix"


async def keep_history_clean(terminal: TerminalState, writer: Writer) -> None:
    """Make a zsh or bash at its prompt keep lines which begin with a blank out of its history. No line is entered for that.

    bash shows its version at a key that is bound in its emacs mode: only then its key to expand the line is pressed.
    """
    stream = terminal.stream
    if _ZSH_PROMPT in stream.read_raw(max(stream.raw_size - _ZSH_PROMPT_WITHIN_BYTES, 0), stream.raw_size):
        stream.expect_echo(_ZSH_EXPANSION)
        await terminal.gate.type(_ZSH_EXPANSION, writer)
    elif BRACKETED_PASTE in stream.terminal_modes and _READLINE_PROMPT.search(stream.last_raw_line()):
        begin, deadline = stream.raw_size, terminal.now() + PROBE_WAIT_S
        await terminal.gate.type(_BASH_VERSION_KEYS, writer)
        while _BASH_VERSION not in (shown := stream.read_raw(begin, stream.raw_size)) or not _ends_line(shown):
            due = max(stream.last_data, deadline - PROBE_WAIT_S) + _UNANSWERED_S
            if stream.ended is not None or terminal.now() >= min(due, deadline):
                return
            await stream.wait(min(due, deadline))
        stream.expect_echo(_BASH_EXPANSION)
        await terminal.gate.type(_BASH_EXPANSION, writer)


def _ends_line(shown: bytes) -> bool:
    """Return whether the prompt follows the version of bash, which ends with a line end."""
    return b"\n" in shown[shown.rfind(_BASH_VERSION) :]


async def install_integration(
    terminal: TerminalState, profile: DeviceProfile, shell: ProbedShell, nonce: str, writer: Writer
) -> bool:
    """Type the hooks at the prompt, in one line.

    Returns False if the shell does not support them, or sent no mark.
    """
    if shell.marker is None or isinstance(shell.marker, AsciiMarker) or shell.marker.dialect == "fish":
        return False
    if shell.marker.dialect == "zsh":
        await _output_of(terminal, profile, _ZSH_IGNORE_SPACE, writer)
        text = shell.marker.as_word(_ZSH.format(nonce=nonce, hooks=zsh_hooks()))
        line = f" emulate zsh -o noaliases -c {text}; {_ZSH_RESTORE}"
        if BRACKETED_PASTE in terminal.stream.terminal_modes:  # zsh draws the whole line again for each key, but not in a paste
            line = "".join(paste(line[begin : begin + _PASTE_CHARACTERS]) for begin in range(0, len(line), _PASTE_CHARACTERS))
        return await _type_and_wait(terminal, profile, line, writer)
    if await _bash_version(terminal, profile, writer) < _MIN_BASH:
        return False
    text = shell.marker.as_word(_BASH.format(nonce=nonce, hooks=bash_hooks()))
    return await _type_and_wait(terminal, profile, f" {EVALUATE} {text}", writer)


async def _bash_version(terminal: TerminalState, profile: DeviceProfile, writer: Writer) -> tuple[int, ...]:
    """Return the version; empty if the shell is not bash. The sum distinguishes the output from the echo."""
    left, right = random.randrange(10_000, 50_000), random.randrange(10_000, 50_000)
    line = f' {BEFORE_BUILTIN} echo "$(({left}+{right}))${{BASH_VERSION-}}"'
    terminal.stream.expect_echo("", answers=(str(left + right),))
    lines = await _output_of(terminal, profile, line, writer)
    versions = (re.search(rf"{left + right}(\d+)\.(\d+)\.", line) for line in lines)
    return next((tuple(map(int, found.groups())) for found in versions if found), ())


async def _type_and_wait(terminal: TerminalState, profile: DeviceProfile, line: str, writer: Writer) -> bool:
    """Type a line; return whether a prompt mark followed. Waits for the prompt after the mark."""
    stream = terminal.stream
    before = stream.prompts.count
    deadline = terminal.now() + PROBE_WAIT_S
    stream.expect_echo(line)
    await terminal.gate.type(line + "\n", writer)
    while stream.prompts.count == before:
        if stream.ended is not None or terminal.now() >= deadline:
            return False
        await stream.wait(deadline)
    await wait_for_prompt(terminal, profile, deadline, None)
    return True
