"""A shell at the far end of SSH or Telnet is given marks: typed to it, they live in its memory only (design, section 5)."""

from __future__ import annotations

import random
import re

from ptyctl.core.marker import AsciiMarker
from ptyctl.platforms import DeviceProfile
from ptyctl.session.device.prompt_wait import wait_for_prompt
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.terminal_state import TerminalState

from .shell_probe import PROBE_WAIT_S, Shell, answer_to
from .shells import bash_hooks, zsh_hooks

#: Before that bash has no array of prompt commands.
_BASH_SINCE = (5, 1)
#: What would not pass through a printf format in single quotes, or be taken for history.
_NOT_IN_A_FORMAT = re.compile(r"[\n'\\%!]")
#: bash has a line in its history before it runs it, and what was asked before; HISTCONTROL may have kept them out.
_BASH = """__ptyctl_nonce={nonce} __ptyctl_options=$BASHOPTS
builtin shopt -u expand_aliases
while [[ $(builtin history 1) == *@(__ptyctl|'echo $(('*'))${{'@(ZSH|BASH)_VERSION)* ]]; do builtin history -d -1 || break; done
{hooks}
__ptyctl_install
unset -f __ptyctl_install
[[ $__ptyctl_options != *expand_aliases* ]] || builtin shopt -s expand_aliases
unset __ptyctl_options"""
_ZSH = """typeset -g __ptyctl_nonce={nonce}
{hooks}
__ptyctl_install
unfunction __ptyctl_install"""
#: zsh decides whether to keep a line when it has read it, so a line before sees to that.
_ZSH_FORGETS = " [[ -o histignorespace ]] || { __ptyctl_kept=1; setopt histignorespace; }"
#: The same for that line, and those that ask: zsh is recognised by how its line editor begins a prompt (attributes off, screen
#: cleared below). The words are expanded by a tab while they are edited, and erased: as no line is entered, none is kept.
_ZSH_PROMPT = b"\x1b[0m\x1b[27m\x1b[24m\x1b[J"
_ZSH_PROMPT_WITHIN_BYTES = 1024
_ZSH_EXPANDS = " ${${options[histignorespace]:#on}:+${__ptyctl_kept::=1}}${options[histignorespace]::=on}\t\x15"
_ZSH_AS_BEFORE = "(( ! ${+__ptyctl_kept} )) || { unset __ptyctl_kept; unsetopt histignorespace; }"


async def keep_history_clean(terminal: TerminalState, writer: Writer) -> None:
    """At the prompt of a zsh that keeps every line: from here on it does not keep those that begin with a blank."""
    if _ZSH_PROMPT in terminal.stream.read_raw(
        max(terminal.stream.raw_size - _ZSH_PROMPT_WITHIN_BYTES, 0), terminal.stream.raw_size
    ):
        await terminal.gate.type(_ZSH_EXPANDS, writer)


async def install_integration(
    terminal: TerminalState, profile: DeviceProfile, shell: Shell, nonce: str, writer: Writer
) -> bool:
    """Types the marks at the prompt that is there, in one line.

    False where the shell is none that can have them, or where no mark came: then it is spoken to as before.
    """
    if shell.marker is None or isinstance(shell.marker, AsciiMarker) or shell.marker.dialect == "fish":
        return False
    if shell.marker.dialect == "zsh":
        await answer_to(terminal, profile, _ZSH_FORGETS, writer)
        text = _evaluated(_ZSH.format(nonce=nonce, hooks=zsh_hooks()))
        return await _marked(terminal, profile, f" emulate zsh -o noaliases -c {text}; {_ZSH_AS_BEFORE}", writer)
    if await _bash_version(terminal, profile, writer) < _BASH_SINCE:
        return False
    text = _evaluated(_BASH.format(nonce=nonce, hooks=bash_hooks()))
    return await _marked(terminal, profile, f" eval {text}", writer)


async def _bash_version(terminal: TerminalState, profile: DeviceProfile, writer: Writer) -> tuple[int, ...]:
    """Empty where the shell is no bash. The sum tells the answer from the echo."""
    left, right = random.randrange(10_000, 50_000), random.randrange(10_000, 50_000)
    said = await answer_to(terminal, profile, f" echo $(({left}+{right}))${{BASH_VERSION-}}", writer)
    answers = (re.match(rf"{left + right}(\d+)\.(\d+)\.", line) for line in said)
    return next((tuple(map(int, found.groups())) for found in answers if found), ())


def _evaluated(text: str) -> str:
    """One line's word that stands for a text of several."""
    form = _NOT_IN_A_FORMAT.sub(lambda found: f"\\{ord(found[0]):03o}", text)
    return f"\"$(printf '{form}')\""


async def _marked(terminal: TerminalState, profile: DeviceProfile, line: str, writer: Writer) -> bool:
    """Whether a prompt mark comes for the line; the prompt behind it is there then."""
    stream, before = terminal.stream, len(terminal.stream.prompts)
    deadline = terminal.now() + PROBE_WAIT_S
    await terminal.gate.type(line + "\n", writer)
    while len(stream.prompts) == before:
        if stream.ended is not None or terminal.now() >= deadline:
            return False
        await stream.signal.wait(deadline)
    await wait_for_prompt(terminal, profile, deadline, None)
    return True
