"""Commands that run while the daemon is replaced: they end in the next one as they would have, in each kind of terminal."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api.handle import SessionHandle
from ptyctl.daemon.control import HAND_OVER
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.daemon.test_crash_recovery import PATIENCE_MS, Life

pytestmark = pytest.mark.waits

LOOP = "for i in 1 2 3 4; do echo n$i; sleep 0.3; done; (exit 3)"
LINES = "n1\nn2\nn3\nn4\n"
SHELLS: dict[str, tuple[str, ...]] = {
    "bash": ("bash", "--norc", "--noprofile"),
    "dash": ("dash",),
    "ksh": ("ksh",),
    "mksh": ("mksh",),
    "busybox": ("busybox", "sh"),
}
#: Commands that start a shell without marks in a bash with marks.
NESTED = {"dash in bash": "dash", "bash in bash": "bash --norc --noprofile"}


@pytest.fixture
async def life(runtime_dir: RuntimeDir) -> AsyncIterator[Life]:
    async with AsyncExitStack() as connections:
        yield Life(runtime_dir, connections)


async def open_terminal(life: Life, terminal: str) -> SessionHandle:
    if terminal in NESTED:
        shell = await life.open(command=SHELLS["bash"])
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        await shell.exec(NESTED[terminal], timeout_ms=PATIENCE_MS)
    else:
        require_program(SHELLS[terminal][0], SHELLS[terminal][0])
        shell = await life.open(command=SHELLS[terminal])
    assert (await shell.exec("echo first", timeout_ms=PATIENCE_MS)).stdout == "first\n"
    return shell


@pytest.mark.parametrize("number", [signal.SIGKILL, HAND_OVER])
@pytest.mark.parametrize("terminal", [*SHELLS, *NESTED])
async def test_running_command_ends_after_the_daemon_is_replaced(life: Life, terminal: str, number: signal.Signals) -> None:
    shell = await open_terminal(life, terminal)
    run = await shell.exec(LOOP, timeout_ms=0)
    assert (await shell.read(until_regex="(?m)^n1$", timeout_ms=PATIENCE_MS)).matched
    shell = await life.again(shell, number)
    done = await shell.wait(run.block_id, timeout_ms=PATIENCE_MS)
    assert (done.stdout, done.exit_code) == (LINES, 3)
    after = await shell.exec("echo after; (exit 4)", timeout_ms=PATIENCE_MS)
    assert (after.stdout, after.exit_code) == ("after\n", 4)


@pytest.mark.parametrize("terminal", NESTED)
async def test_command_at_an_idle_nested_shell_is_typed_for_it_after_the_daemon_is_replaced(life: Life, terminal: str) -> None:
    shell = await life.again(await open_terminal(life, terminal), HAND_OVER)
    after = await shell.exec("echo after; (exit 4)", timeout_ms=PATIENCE_MS)
    assert (after.stdout, after.exit_code) == ("after\n", 4)
    await shell.exec("exit", timeout_ms=PATIENCE_MS)
    assert (await shell.exec("echo outer", timeout_ms=PATIENCE_MS)).stdout == "outer\n"


@pytest.mark.parametrize("terminal", ["bash", "dash", "mksh"])
async def test_command_ends_wherever_the_daemon_is_killed_during_it(life: Life, terminal: str) -> None:
    """At a random moment of each of several commands, also before its first output and after its end."""
    shell, moments = await open_terminal(life, terminal), random.Random(terminal)
    for _ in range(4):
        run = await shell.exec("for i in 1 2 3 4; do echo n$i; sleep 0.05; done", timeout_ms=0)
        await asyncio.wait_for(asyncio.shield(asyncio.create_task(asyncio.sleep(moments.uniform(0, 0.3)))), 1)
        shell = await life.again(shell)
        done = await shell.wait(run.block_id, timeout_ms=PATIENCE_MS)
        if done.done_reason != "cancelled":  # it was not typed when the daemon was killed
            assert done.stdout == LINES
    assert (await shell.exec("echo after", timeout_ms=PATIENCE_MS)).stdout == "after\n"


async def test_command_of_a_program_with_a_prompt_ends_after_the_daemon_is_replaced(life: Life) -> None:
    shell = await life.open(command=(sys.executable, "-q", "-i", "-I", "-S"))
    await shell.exec("import time", timeout_ms=PATIENCE_MS)
    run = await shell.exec("time.sleep(1.5); print(6 * 7)", timeout_ms=0)
    await asyncio.sleep(0)
    shell = await life.again(shell)
    done = await shell.wait(run.block_id, timeout_ms=PATIENCE_MS)
    assert "42" in (done.stdout or "")
    assert "43" in ((await shell.exec("print(6 * 7 + 1)", timeout_ms=PATIENCE_MS)).stdout or "")
