"""Random interleavings of two tasks in real shells: every line that a shell executes is one that a task asked for.

Task A types keys of all kinds, and presses Enter where it knows the line. Task B runs commands, whatever A has left. The
shells record what they execute. `make interleavings` tries 3,500.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from fixtures.home import create_home
from fixtures.servers.programs import require_program
from ptyctl import LocalController, SessionHandle
from ptyctl.api import ErrorCode
from ptyctl.api.errors import PtyctlError
from ptyctl.controller.settings import Settings
from tests.controller.session_calls import BASH, PATIENCE_MS, execute, refused, session, until, write
from tests.integration.random_typing import Editing, Typist

pytestmark = pytest.mark.waits

#: Interleavings in one test. Another test has another seed.
INTERLEAVINGS = 3
SHELLS: dict[str, tuple[tuple[str, ...], str, Editing]] = {
    "bash": (BASH, "set -o emacs", "emacs"),
    "bash vi": (BASH, "set -o vi", "vi"),
    "zsh": (("zsh",), "bindkey -e", "emacs"),
    "zsh vi": (("zsh",), "bindkey -v", "vi"),
    "fish": (("fish",), "true", "emacs"),
    "fish vi": (("fish",), "fish_vi_key_bindings", "vi"),
    "dash": (("dash",), "true", "canonical"),
}
#: Commands of task B, and the arguments of `note` after the number, which `{}` stands for.
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "note {} plain": (("plain",),),
    "note {} 'two  words' \"'\"": (("two  words", "'"),),
    "note {} one\nnote {} two": (("one",), ("two",)),
    "note {} one; note {} two": (("one",), ("two",)),
    "note {} 'line\nline' é": (("line\nline", "é"),),
    f"note {{}} {'long ' * 120}end": (("long",) * 120 + ("end",),),
    "sleep 0.1; note {} late": (("late",),),
}
#: Reasons of refusals. Task A leaves its line then, as the hint tells, and task B tries again.
REASONS = {"half_typed", "continuation", "question", "no_prompt", "interrupted", "pager", "editor", None}
#: Records each argument, and separates the records.
NOTE = """#!/bin/sh
{{ printf '%s\\037' "$@"; printf '\\036'; }} >> {record}
echo "noted $1"
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--interleavings") // (INTERLEAVINGS * len(SHELLS))))


@dataclass
class Interleaving:
    """Two tasks in one shell.

    Attributes:
        ran: the arguments of `note` in the commands that task B has run.
        log: what the tasks did, for the report of a failure.
        with_locks: whether a task locks the terminal before it types.
    """

    shell: SessionHandle
    record: Path
    typist: Typist
    choose: random.Random
    numbers: count[int]
    ran: list[tuple[str, ...]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    with_locks: bool = False

    async def run(self) -> None:
        """Let the tasks act in turn; at the end, task B's command has run."""
        self.with_locks = self.choose.random() < 0.5
        self.log.append(f"locks: {self.with_locks}")
        for _ in range(self.choose.randint(2, 12)):
            await self.choose.choice((self.type_keys, self.type_keys, self.run_command, self.race))()
            await asyncio.sleep(self.choose.choice((0, 0, 0, 0.01, 0.05, 0.2)))
        await self.run_until_done()
        self.check()

    async def type_keys(self) -> None:
        """Task A types, and leaves the terminal to task B once it has entered a complete command: it never types ahead."""
        keys = ""
        for _ in range(self.choose.randint(1, 4)):
            if not self.typist.line.complete:
                keys += self.typist.keys()
        if not keys:
            return
        async with self.lock("a"):
            await self.write(keys)

    async def write(self, keys: str) -> None:
        self.log.append(f"a: {keys!r}")
        await write(self.shell, "a", data=keys)

    async def run_command(self) -> bool:
        """Task B runs a command; return whether it did."""
        async with self.lock("b"):
            return await self.execute()

    async def execute(self) -> bool:
        text, arguments = self.choose.choice(list(COMMANDS.items()))
        records = [(str(next(self.numbers)), *each) for each in arguments]
        command = text.format(*(number for number, *_ in records))
        self.log.append(f"b: {command!r}")
        try:
            reply = await execute(self.shell, cmd=command, task_id="b", timeout_ms=PATIENCE_MS)
        except PtyctlError as error:
            if error.code is not ErrorCode.BUSY or error.details.get("reason") not in REASONS:
                raise
            self.log.append(f"   {error.message}")
            return False
        self.log.append(f"   {reply.done_reason} {reply.exit_code} {reply.stdout!r} {reply.notices}")
        self.ran += records
        assert (reply.stdout, reply.exit_code) == ("".join(f"noted {each[0]}\n" for each in records), 0), self.report()
        self.typist.reset()
        return True

    async def race(self) -> None:
        """Task A types while task B's command begins, and is refused if B has the lock."""
        if not self.with_locks:
            return
        delay_s = self.choose.choice((0, 0, 0.001, 0.005, 0.02, 0.1))
        async with self.lock("b"), asyncio.TaskGroup() as tasks:
            tasks.create_task(self.type_without_lock(delay_s))
            tasks.create_task(self.execute())

    async def type_without_lock(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        with refused(ErrorCode.LOCKED):
            await write(self.shell, "a", data="note 0 locked\n")

    async def run_until_done(self) -> None:
        """Task B tries until its command runs; task A leaves the line meanwhile."""
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while not await self.run_command():
                await until(self.commands_have_run)  # Ctrl-C would interrupt them
                async with self.lock("a"):
                    await self.write("\x03")
                    await asyncio.sleep(0.05)
                    await self.write("\x03")
                await asyncio.sleep(0.2)

    @contextlib.asynccontextmanager
    async def lock(self, task: str) -> AsyncIterator[None]:
        if not self.with_locks:
            yield
            return
        fields = {"session_id": self.shell.session_id, "task_id": task}
        await session(self.shell.controller, "lock", **fields)
        try:
            yield
        finally:
            await session(self.shell.controller, "unlock", **fields)

    async def commands_have_run(self) -> bool:
        """Whether the commands that task A has entered are recorded."""
        return Counter(self.typist.entered) <= self.recorded()

    def recorded(self) -> Counter[tuple[str, ...]]:
        return Counter(tuple(each.split("\x1f")[:-1]) for each in self.record.read_text().split("\x1e")[:-1])

    def check(self) -> None:
        """Check that the shell has executed exactly what the tasks asked for."""
        recorded, asked = self.recorded(), Counter([*self.ran, *self.typist.entered])
        assert recorded - asked == Counter(), f"not asked for: {recorded - asked}\n{self.report()}"
        assert asked - recorded == Counter(), f"not executed: {asked - recorded}\n{self.report()}"

    def report(self) -> str:
        """Return the last actions of the tasks."""
        return "\n".join(self.log[-30:]).replace("long " * 20, "long... ")


@contextlib.asynccontextmanager
async def running_shell(folder: Path, name: str) -> AsyncIterator[SessionHandle]:
    """A shell with `note` in its PATH, after its first command."""
    command, first, _ = SHELLS[name]
    (folder / "bin").mkdir()
    script = folder / "bin" / "note"
    script.write_text(NOTE.format(record=folder / "record"))
    script.chmod(0o755)
    (folder / "record").touch()
    (folder / "folder").mkdir()
    (folder / ".zshrc").touch()
    home = str(create_home(folder))
    env = {"HOME": home, "ZDOTDIR": home, "HISTFILE": "/dev/null", "PATH": f"{folder}/bin:/usr/bin:/bin"}
    shell = (require_program(command[0], command[0]), *command[1:])
    async with (
        LocalController(Settings(state_dir=folder / "state", policy="off")) as controller,
        await SessionHandle.open(controller, protocol="local", command=shell, env=env, cwd=str(folder / "folder")) as handle,
    ):
        await execute(handle, cmd=first, timeout_ms=PATIENCE_MS)
        yield handle


@pytest.mark.parametrize("name", SHELLS)
async def test_shell_executes_exactly_the_lines_that_a_task_asked_for(tmp_path: Path, name: str, seed: int) -> None:
    choose, numbers = random.Random(f"{name} {seed}"), count(1)
    async with running_shell(tmp_path, name) as shell:
        typist = Typist(choose, SHELLS[name][2], numbers)
        both = Interleaving(shell, tmp_path / "record", typist, choose, numbers)
        for _ in range(INTERLEAVINGS):
            await both.run()
