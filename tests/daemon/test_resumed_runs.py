"""Commands that run while the daemon is replaced: they end in the next one as they would have, in each kind of terminal."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from fixtures.daemons import end_daemon
from fixtures.servers.openssh import running_sshd
from fixtures.servers.programs import require_program
from ptyctl.api.exec import ExecReply
from ptyctl.api.handle import SessionHandle
from ptyctl.daemon.control import HAND_OVER
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.daemon.test_crash_recovery import PATIENCE_MS, Life
from tests.integration.concurrent_cases import run_cases

pytestmark = pytest.mark.waits

LOOP = "for i in 1 2 3 4; do echo LABEL$i; sleep 0.2; done; (exit 3)"
PYTHON = (sys.executable, "-q", "-i", "-I", "-S")


@dataclass(frozen=True, slots=True)
class Terminal:
    """A kind of terminal.

    Attributes:
        program: the session's program.
        marks: whether it gets shell integration.
        nested: a command that starts the program in front of it, with `{ssh}` for one that logs in at a server.
        loop: a command that slowly prints four lines, each of them LABEL and a number; `exit_code` is its exit code.
        after: a command that prints "after" and a line end; its exit code is 4, or there is none.
    """

    program: tuple[str, ...]
    marks: bool = False
    nested: str | None = None
    loop: str = LOOP
    exit_code: int | None = 3
    after: str = "echo after; (exit 4)"

    @property
    def required(self) -> list[str]:
        """The programs that a machine may lack."""
        return [self.program[0], *(self.nested or "").split()[:1]]


BASH, ZSH, FISH = ("bash", "--norc", "--noprofile"), ("zsh", "-f"), ("fish", "--no-config")
FISH_AFTER = "echo after; sh -c 'exit 4'"
FISH_LOOP = "for i in 1 2 3 4; echo LABEL$i; sleep 0.2; end; sh -c 'exit 3'"
PYTHON_LOOP = """exec("for i in range(1, 5): print('LABEL%d' % i, flush=True); __import__('time').sleep(0.2)")"""
NESTED_BASH = "bash --norc --noprofile"
TERMINALS: dict[str, Terminal] = {
    "bash with marks": Terminal(BASH, marks=True),
    "zsh with marks": Terminal(("zsh",), marks=True),
    "fish with marks": Terminal(FISH, marks=True, loop=FISH_LOOP, after=FISH_AFTER),
    "bash": Terminal(BASH),
    "zsh": Terminal(ZSH),
    "fish": Terminal(FISH, loop=FISH_LOOP, after=FISH_AFTER),
    "dash": Terminal(("dash",)),
    "ksh": Terminal(("ksh",)),
    "mksh": Terminal(("mksh",)),
    "busybox": Terminal(("busybox", "sh")),
    "python": Terminal(PYTHON, loop=PYTHON_LOOP, exit_code=None, after="print('after')"),
    "dash in bash": Terminal(BASH, marks=True, nested="dash"),
    "bash in bash": Terminal(BASH, marks=True, nested=NESTED_BASH),
    "ssh in bash": Terminal(BASH, marks=True, nested="{ssh}"),
    "ssh in dash": Terminal(("dash",), nested="{ssh}"),
    "bash in fish": Terminal(FISH, marks=True, nested=NESTED_BASH),
    "dash in zsh": Terminal(ZSH, nested="dash"),
    "ssh in zsh": Terminal(ZSH, nested="{ssh}"),
}
REPLACEMENTS = [signal.SIGKILL, HAND_OVER]


@pytest.fixture(scope="module")
def ssh() -> Iterator[str]:
    """A command that starts a shell on a real sshd."""
    with running_sshd() as sshd:
        options = f"-o UserKnownHostsFile={sshd.known_hosts} -o IdentitiesOnly=yes -F none -i {sshd.key_path} -p {sshd.port}"
        program = require_program("ssh", "openssh-client")
        yield f"{program} {options} -t {sshd.username}@{sshd.host} '{NESTED_BASH}'"


@pytest.fixture
async def life(runtime_dir: RuntimeDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Life]:
    (tmp_path / ".zshrc").touch()
    monkeypatch.setenv("ZDOTDIR", str(tmp_path))
    async with AsyncExitStack() as connections:
        yield Life(runtime_dir, connections)


async def open_terminal(life: Life, name: str, ssh: str) -> SessionHandle:
    """Open a terminal in which no command was run in the shell that reads."""
    terminal = TERMINALS[name]
    for program in terminal.required:
        if program not in (PYTHON[0], "{ssh}"):
            require_program(program, program)
    shell = await life.open(command=terminal.program, shell_integration="auto" if terminal.marks else "off")
    if terminal.nested is not None:
        await shell.exec(terminal.nested.format(ssh=ssh), timeout_ms=PATIENCE_MS)
    return shell


async def assert_ends(shell: SessionHandle, name: str, block_id: str, label: str) -> bool:
    """Wait for the run of a loop and run another command. Return whether the loop was typed at all."""
    terminal = TERMINALS[name]
    done = await shell.wait(block_id, timeout_ms=PATIENCE_MS)
    typed = done.done_reason != "cancelled"
    if typed:
        assert (done.stdout, done.exit_code) == ("".join(f"{label}{i}\n" for i in range(1, 5)), terminal.exit_code)
    else:
        assert not done.stdout
        assert f"{label}1" not in ((await shell.read(cursor="0", timeout_ms=0)).chunk or "")
    await assert_runs(shell, name)
    return typed


async def assert_runs(shell: SessionHandle, name: str) -> None:
    """Run another command."""
    after = await shell.exec(TERMINALS[name].after, timeout_ms=PATIENCE_MS)
    assert (after.stdout, after.exit_code) == ("after\n", None if name == "python" else 4)


async def open_terminals(life: Life, ssh: str) -> dict[str, SessionHandle]:
    shells: dict[str, SessionHandle] = {}

    async def open_(name: str) -> None:
        shells[name] = await open_terminal(life, name, ssh)

    await run_cases({name: partial(open_, name) for name in TERMINALS})
    return shells


async def replace_daemon(life: Life, shells: dict[str, SessionHandle], number: signal.Signals) -> None:
    end_daemon(life.runtime_dir, number)
    for name, shell in shells.items():
        shells[name] = await life.found(shell)


@pytest.mark.parametrize("number", REPLACEMENTS)
async def test_run_ends_in_each_terminal_whenever_the_daemon_is_replaced(life: Life, ssh: str, number: signal.Signals) -> None:
    """At random moments of the command of one of the terminals: also before it was typed, and after its end."""
    shells, moments = await open_terminals(life, ssh), random.Random(int(number))
    typed = dict.fromkeys(shells, 0)
    for label, moment in zip(("one-", "two-", "three-", "four-"), (0, *(moments.randint(0, 4) for _ in range(3))), strict=True):
        starts = [shells[name].exec(TERMINALS[name].loop.replace("LABEL", label), timeout_ms=0) for name in shells]
        runs = dict(zip(shells, await asyncio.gather(*starts), strict=True))
        if moment:
            seen = shells[moments.choice(list(shells))]
            assert (await seen.read(until_regex=f"(?m)^{label}{moment}$", timeout_ms=PATIENCE_MS)).matched
        await replace_daemon(life, shells, number)

        async def ends(name: str, runs: dict[str, ExecReply] = runs, label: str = label) -> None:
            typed[name] += await assert_ends(shells[name], name, runs[name].block_id or "", label)

        await run_cases({name: partial(ends, name) for name in shells})
    assert min(typed.values()) >= 1


@pytest.mark.parametrize("number", REPLACEMENTS)
async def test_command_is_typed_for_the_idle_shell_after_the_daemon_is_replaced(
    life: Life, ssh: str, number: signal.Signals
) -> None:
    shells = await open_terminals(life, ssh)

    async def runs(name: str) -> None:
        await assert_runs(shells[name], name)

    async def runs_in_both(name: str) -> None:
        await runs(name)
        if TERMINALS[name].nested is not None:
            await shells[name].exec("exit", timeout_ms=PATIENCE_MS)
            assert (await shells[name].exec("echo outer", timeout_ms=PATIENCE_MS)).stdout == "outer\n"

    await run_cases({name: partial(runs, name) for name in shells})
    await replace_daemon(life, shells, number)
    await run_cases({name: partial(runs_in_both, name) for name in shells})
