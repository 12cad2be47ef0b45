"""Shell integration for a shell at the far end of SSH or Telnet: hooks that send marks, typed into the shell's memory."""

from __future__ import annotations

import random
import re

from ptyctl.core.marker import BEFORE_BUILTIN, EVALUATE, AsciiMarker
from ptyctl.platforms import DeviceProfile
from ptyctl.session.device.prompt_wait import wait_for_prompt
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.terminal_state import TerminalState

from .shell_probe import PROBE_WAIT_S, ProbedShell, output_of
from .shells import bash_hooks, zsh_hooks

#: Older versions of bash do not support an array in PROMPT_COMMAND.
_MIN_BASH = (5, 1)
#: bash adds a line to its history before it runs it; HISTCONTROL may have kept the previous lines out. The loop removes ours.
#: Under `set -a` the nonces, one of them in the function that the probe has defined, would be in the environment of programs.
_BASH = """__ptyctl_nonce={nonce} __ptyctl_options=$BASHOPTS
builtin export -n __ptyctl_nonce; builtin export -nf __ptyctl 2>/dev/null
builtin shopt -u expand_aliases
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
_ZSH_RESTORE = "(( ! ${+__ptyctl_kept} )) || { unset __ptyctl_kept; unsetopt histignorespace; }"


async def keep_history_clean(terminal: TerminalState, writer: Writer) -> None:
    """Set HIST_IGNORE_SPACE in a zsh at its prompt, so that lines which begin with a blank are not in its history."""
    stream = terminal.stream
    if _ZSH_PROMPT in stream.read_raw(max(stream.raw_size - _ZSH_PROMPT_WITHIN_BYTES, 0), stream.raw_size):
        await terminal.gate.type(_ZSH_EXPANSION, writer)


async def install_integration(
    terminal: TerminalState, profile: DeviceProfile, shell: ProbedShell, nonce: str, writer: Writer
) -> bool:
    """Type the hooks at the prompt, in one line.

    Returns False if the shell does not support them, or sent no mark.
    """
    if shell.marker is None or isinstance(shell.marker, AsciiMarker) or shell.marker.dialect == "fish":
        return False
    if shell.marker.dialect == "zsh":
        await output_of(terminal, profile, _ZSH_IGNORE_SPACE, writer)
        text = shell.marker.as_word(_ZSH.format(nonce=nonce, hooks=zsh_hooks()))
        return await _type_and_wait(terminal, profile, f" emulate zsh -o noaliases -c {text}; {_ZSH_RESTORE}", writer)
    if await _bash_version(terminal, profile, writer) < _MIN_BASH:
        return False
    text = shell.marker.as_word(_BASH.format(nonce=nonce, hooks=bash_hooks()))
    return await _type_and_wait(terminal, profile, f" {EVALUATE} {text}", writer)


async def _bash_version(terminal: TerminalState, profile: DeviceProfile, writer: Writer) -> tuple[int, ...]:
    """Return the version; empty if the shell is not bash. The sum distinguishes the output from the echo."""
    left, right = random.randrange(10_000, 50_000), random.randrange(10_000, 50_000)
    lines = await output_of(terminal, profile, f' {BEFORE_BUILTIN} echo "$(({left}+{right}))${{BASH_VERSION-}}"', writer)
    versions = (re.search(rf"{left + right}(\d+)\.(\d+)\.", line) for line in lines)
    return next((tuple(map(int, found.groups())) for found in versions if found), ())


async def _type_and_wait(terminal: TerminalState, profile: DeviceProfile, line: str, writer: Writer) -> bool:
    """Type a line; return whether a prompt mark followed. Waits for the prompt after the mark."""
    stream, before = terminal.stream, terminal.stream.prompts.count
    deadline = terminal.now() + PROBE_WAIT_S
    await terminal.gate.type(line + "\n", writer)
    while stream.prompts.count == before:
        if stream.ended is not None or terminal.now() >= deadline:
            return False
        await stream.wait(deadline)
    await wait_for_prompt(terminal, profile, deadline, None)
    return True
