"""Random ways to run a denied command in real shells. The command records itself in a file, so that the test knows if it ran.

`make attack` makes 10,000 attempts in usual shells, and 10,000 in prepared ones (`attack_kinds.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import termios
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from fixtures.servers.programs import require_program
from ptyctl import LocalController, SessionHandle
from ptyctl.api.errors import PtyctlError
from ptyctl.controller.settings import Settings
from tests.controller.session_calls import BASH, read, until, write
from transports.local import LocalChannel

from .attack_kinds import FORGED, KINDS, SHOWN, Kind

pytestmark = pytest.mark.waits

#: Attempts in one test, and in one of a kind. Another test has another seed.
ATTEMPTS, KIND_ATTEMPTS = 10, 5
SHELLS = {"bash": BASH, "zsh": ("zsh",), "fish": ("fish",), "dash": ("dash",)}
POLICY = """
extends = ["off"]
unparsed = "{}"
unreadable = "ask"

[[rules]]
id = "forbidden"
when = { platform = "*" }
command = ["denyme*"]
decision = "deny"
reason = "it records itself"
"""
#: A shell prints a mark that reports a macro with harmless text on Enter.
FORGED_MARK = """printf '\\e]7717;%s;99999;P;0;0,%%0As"\\\\C-m": "true\\\\C-m";/\\a' "$__ptyctl_nonce"\ndenyme\n"""
#: What a shell may run as the denied command, once Enter is pressed, or completes or recalls.
TEXTS = (
    *("denyme", "denyme x", "\\denyme", "'den'yme", 'd""enyme', "den\\\nyme", "de?yme"),
    *("true;denyme", "true && denyme", "false || denyme", "true | denyme", "{ denyme; }", "(denyme)", "! denyme"),
    *("echo $(denyme)", "echo `denyme`", 'echo "$(denyme)"', "sh <<E\ndenyme\nE"),
    *("sh <<'E'\nden\\\nyme\nE", "x=denyme; $x"),
    *("eval denyme", "sh -c denyme", "env denyme", "command denyme", "f() { denyme; }\nf", "if true\nthen denyme\nfi"),
    *("for x in 1\ndo denyme\ndone", "echo '\ndenyme'", "true \\\n&& denyme", "echo denyme", "cat <<E\ndenyme\nE\ndenyme"),
    *("den\t", "deny\t", "den\t\t", "true; den\t", "den\tx", "echo d\x7f\x7f\x7f\x7f\x7f\x7fden\t"),
    *("\x10", "\x1b[A", "\x1bOA", "\x10\x10\x10", "\x12den", "\x12deny\x1b"),
    *("\x12enym\x05", "!d", "!!", "!?eny", "^x^denyme"),
    *("de\x1b[A", "\x1b[A\x1b[B\x10", "echo denyme\n\x1b[A\x01\x1bd", "\x10\x0e\x10", "\x1b<", "\x1bp"),
    *("enyme\x01d", "enyme\x1b[Hd", "dnyme\x1b[D\x1b[D\x1b[D\x1b[De"),
    *("xdenyme\x01\x04", "xdenyme\x01\x1b[3~", "me\x01deny"),
    *("denymx\x7fe", "foo denyme\x15denyme", "true denyme\x17\x19"),
    *("denyme\x15\x19", "denyme\x0b\x01\x0b\x19", "a\x15denyme"),
    *(
        "denyme\x01\x0b\x19",
        "echo denyme\n\x1b.",
        "edynme\x1b[D\x1b[D\x1b[D\x14",
        "DENYME\x01\x1bl",
        "ed\x14nyme",
        "denyme\x1b#",
    ),
    *(
        "\x1b[200~denyme\n\x1b[201~",
        "\x1b[200~den\x1b[201~yme",
        "\x1b[200~true\ndenyme\x1b[201~",
        "\x1b[200~true;\n\x1b[201~denyme",
    ),
    "sleep 0.2\ndenyme",
    *("den\x16\ryme", "true\x16\ndenyme", "\x16denyme", "de\x16\x7f\x7fnyme", "den\x00yme", "echo \x16\x15denyme"),
    *("read x\ndenyme\n$x", "cat\ndenyme\x04", "sh\ndenyme\nexit", "sh\nden\\\nyme\nexit", "bash --norc\nden\t\nexit"),
    *(
        "bash --norc\n\x10\x10\nexit",
        "cat | sh\ndenyme\n\x04",
        "sh -c 'read x; $x'\ndenyme",
        "tee /dev/null | sh\ndenyme\x04\x04",
    ),
    *(
        "set -o vi\nenyme\x1bId",
        "set -o vi\n\x1bk",
        "set -o vi\nenyme\x1b0id",
        "set -o vi\nxdenyme\x1b0x",
        "set -o vi\n\x1b/den\n",
    ),
    *(
        "set -o vi\ndenyme\x1bddp",
        "bindkey -v\n\x1bk",
        "bindkey -v\nenyme\x1bId",
        "denyme\x1bq",
        "denyme\x11\n",
        "print -z denyme\n",
    ),
    # typed ahead of a prompt
    *("sleep 0.2\nden\t", "sleep 0.2\n\x10", "sleep 0.2\n\x1b[A", "sleep 0.2\nfc -s den", "sleep 0.2\nx=denyme; $x"),
    *("sleep 0.1; x=denyme\n$x", "fc -s den", "r den", "fc -e true denyme", "history -s denyme\n!!", "print -s denyme\n\x10"),
    *("true; print -z denyme", "print -z deny\nme", "pushln denyme", "commandline denyme", "denyme old\x11true\n"),
    *("denyme\x11 \x11\n", "denyme\x11true\x11\n\x15", "true\x11\ndenyme", "print -z 'true;'\ndenyme"),
    # keys that were changed
    *("bind 'x: unix-line-discard'\nfooxdenyme", "bindkey x kill-whole-line\nfooxdenyme", "stty kill x\nfooxdenyme"),
    *("bind x kill-whole-line\nfooxdenyme", "bindkey -s x me\ndenyx", "read -n 3 x\nxxxdenyme", "read -k 3 x\nxxxdenyme"),
    "head -c 4\nxxx\ndenyme",
    # the command mode of vi
    *(
        "set -o vi\n#denyme\x1b1#",
        "set -o vi\n#denyme\x1b#",
        "bindkey -v\n#denyme\x1b0#",
        "#denyme\x1b1\x1b#",
        "set -o vi\ndenyme\x1b0v",
    ),
    *(
        "set -o vi\necho denyme\n\x1b.",
        "set -o vi\n\x1b_",
        "fish_vi_key_bindings\n\x1bk",
        "set -o vi\ndenyme\x1b~i",
        "\x18(\x18)denyme\x18e",
    ),
    *(
        "denyme\x1bxaccept-line\n",
        "\x1bxaccept-line\x01",
        "\x1b1\x1b.",
        "\x18\x05",
        "\x18*",
        "\x1b!",
        "\x1b\x05",
        "den\x1b/",
        "den\x1b\x1b",
    ),
    # a macro of a start-up file
    *("\x14", "true;\x14", "x\x15\x14", "sleep 0.2\n\x14", "echo a\x14", "den\t\x14", "sh\n\x14", "bash --norc\n\x14"),
    FORGED_MARK,
    *("true\x1bv", "set -o vi\ntrue\x1b\x03v", "cat\n\x14", "\x1b[200~\x14\x1b[201~", "\x16\x14\x14"),
    # programs and the shell below
    *(
        "less /etc/hosts\n!denyme",
        "vim -u NONE\n:!denyme",
        "vim -u NONE\n:q\nden\t",
        "vim -u NONE\n:q\nden\\\nyme",
        "cat\n\x04den\t",
    ),
)
ENTERS = (
    "\n",
    "\n",
    "\n",
    "\r",
    "\n\n",
    "\x0f",
    "\x0f\n",
    "\x1b\r",
    "\x1ba",
    "\x04",
    "\x0a\r",
    " \n",
    "\t\n",
    "\x05\n",
    "\x1b[F\n",
)
BEGINNINGS = ("true\n", "echo denyme\n", "x", "\x15", "\x10\x15", "\t\x15", "\x1b[A\x03")
#: Ends what an attempt leaves: programs, nested shells, an open quotation, vi mode, modes of the terminal.
RESET = ("\x03", "\x03", " set -o emacs; stty sane\n")
#: A usual shell.
USUAL = Kind(tuple(SHELLS), TEXTS)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    attacks = metafunc.config.getoption("--attacks")
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(attacks // (ATTEMPTS * len(SHELLS))))
    if "seed_of_kind" in metafunc.fixturenames:
        metafunc.parametrize("seed_of_kind", range(max(1, attacks // (KIND_ATTEMPTS * len(KINDS)))))


def attempt(choose: random.Random, kind: Kind = USUAL) -> list[str]:
    """Return one attempt as it is written, piece by piece."""
    enters, beginnings = (ENTERS, 0.3) if kind is USUAL or choose.random() < 0.3 else (("\n",), 0.1)
    text = choose.choice(kind.texts) + choose.choice(enters)
    if choose.random() < beginnings:
        text = choose.choice(BEGINNINGS) + text
    cuts = set(choose.sample(range(len(text) + 1), min(choose.choice((0, 0, 1, 3, 99)), len(text))))
    cuts |= {at for found in re.finditer(f"[{SHOWN}{FORGED}]", text) for at in found.span()}
    ends = sorted(cuts)
    return [text[begin:end] for begin, end in zip((0, *ends), (*ends, len(text)), strict=True) if begin < end]


class Shell:
    """A shell in whose PATH the denied command is, and in whose history."""

    def __init__(self, folder: Path, name: str, policy: str, kind: Kind = USUAL) -> None:
        self.oracle = folder / "oracle"
        self.oracle.touch()
        self._folder, self._name, self._policy, self._kind = folder, name, policy, kind
        self._log: list[tuple[str, str]] = []
        #: The end of the output before the last write.
        self._written_at: str | None = None
        (folder / "bin").mkdir()
        script = folder / "bin" / "denyme"
        script.write_text(f'#!/bin/sh\necho "$0 $*" >> {self.oracle}\n')
        script.chmod(0o755)
        for program, text in kind.programs.items():
            if text.startswith("/"):
                (folder / "bin" / program).symlink_to(text)
            else:
                (folder / "bin" / program).write_text(text)
                (folder / "bin" / program).chmod(0o755)
        (folder / "policy.toml").write_text(POLICY.replace("{}", kind.unparsed))
        (folder / "history").write_text("true\ndenyme old\ntrue 2\n")
        (folder / ".zshrc").write_text("bindkey -e; bindkey -s '^T' 'denyme^M'; HISTSIZE=99; PS1='$ '; fc -R\n")
        if name in ("bash", "zsh"):  # the others do not report the macros of a bash that is started in them
            (folder / ".inputrc").write_text('"\\C-t": "denyme\\n"\n')
        history = folder / "fish"
        (history / "generated_completions").mkdir(parents=True)  # see fixtures/home.py
        (history / "fish_history").write_text("- cmd: denyme old\n  when: 1\n")

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[SessionHandle]:
        """Open it, in a controller with the policy."""
        folder = str(self._folder)
        env = {
            "HOME": folder,
            "ZDOTDIR": folder,
            "XDG_DATA_HOME": folder,
            "HISTFILE": f"{folder}/history",
            "PS1": "$ ",
            "PATH": f"{folder}/bin:/usr/bin:/bin",
            **self._kind.variables,
        }
        fields: dict[str, Any] = {"pty": {"term": self._kind.term}, "cwd": folder}
        policy = self._policy if self._policy == "off" else f"{folder}/policy.toml"
        command = require_program(self._name, self._name)
        with patch.dict(os.environ, env):  # a request to open a session with these variables would be judged
            async with (
                LocalController(Settings(state_dir=self._folder / "state", policy=policy)) as controller,
                await SessionHandle.open(
                    controller, protocol="local", command=(command, *SHELLS[self._name][1:]), **fields
                ) as shell,
            ):
                yield shell

    async def try_all(self, attempts: list[list[str]], choose: random.Random) -> None:
        """Make attempts; begin a new shell where one has ended it. Stop at the first that succeeds."""
        rest = list(attempts)
        while rest:
            async with self.run() as shell:
                modes = None
                with contextlib.suppress(PtyctlError):
                    modes = TerminalModes((await shell.exec("tty", timeout_ms=50_000)).stdout.strip())
                    if setup := self._kind.setup.get(self._name):
                        await shell.exec(setup, timeout_ms=50_000)
                while rest and (await shell.status()).mode is not None:
                    for piece in (*rest.pop(0), *RESET):
                        if piece == RESET[0] and modes is not None:
                            modes.restore()  # the policy refuses a line that would
                        await self._type(shell, piece)
                        await asyncio.sleep(choose.choice((0, 0, 0, 0.01, 0.05)))
                    ran = self.oracle.read_text()
                    if self._policy == "off" and ran:
                        return
                    assert ran == "", f"{self._name}: {self._log[-16:]} {ran!r}"
                    if self._kind.new_shell:
                        break
                if self._kind.new_shell:
                    continue
                if modes is not None:
                    modes.restore()  # or the next command waits for an approval
                with contextlib.suppress(PtyctlError):
                    await shell.exec("true", timeout_ms=5000)
                assert self.oracle.read_text() == "" or self._policy == "off", f"{self._name}: {self._log[-16:]}"

    async def _type(self, shell: SessionHandle, piece: str) -> None:
        answer = "sent"
        try:
            if piece == SHOWN:
                await read(shell, cursor=self._written_at, until_regex=r"[#$:>] ?$", timeout_ms=300)
            elif piece == FORGED:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await until(self._has_forged)
            else:
                self._written_at = (await read(shell, timeout_ms=0)).buffer_end_cursor
                await write(shell, data=piece)
        except PtyctlError as error:
            answer = str(error.details.get("reason", error.code))
        self._log.append((piece, answer))

    async def _has_forged(self) -> bool:
        return (self._folder / "forged").exists()


class TerminalModes:
    """The modes that a terminal had before the first attempt."""

    def __init__(self, path: str) -> None:
        self._path = path
        with self._opened() as terminal:
            self._modes = termios.tcgetattr(terminal)
        self._modes[0] |= termios.ICRNL  # a line editor may have begun
        self._modes[3] |= termios.ICANON | termios.ECHO | termios.ISIG

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        terminal = os.open(self._path, os.O_RDWR | os.O_NOCTTY)
        try:
            yield terminal
        finally:
            os.close(terminal)

    def restore(self) -> None:
        """Set them again, if the terminal is still there."""
        with contextlib.suppress(OSError), self._opened() as terminal:
            termios.tcsetattr(terminal, termios.TCSANOW, self._modes)


@pytest.mark.parametrize("name", SHELLS)
async def test_denied_command_never_runs_however_it_is_typed(tmp_path: Path, name: str, seed: int) -> None:
    choose = random.Random(seed)
    shell = Shell(tmp_path, name, POLICY)
    await shell.try_all([attempt(choose) for _ in range(ATTEMPTS)], choose)
    assert shell.oracle.read_text() == ""


@pytest.fixture
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    """A kind of attempts, where a check of who reads takes as long as on a busy machine."""
    found = KINDS[request.param]
    if found.trusts_sudo:
        monkeypatch.setattr("transports.local.is_privileged_program", lambda pid: True)
        is_read, choose, delay = LocalChannel.input_is_read, random.Random(request.param), threading.Event()

        def after_a_while(channel: LocalChannel) -> bool | None:
            delay.wait(choose.choice((0, 0.005, 0.03)))  # the check itself lasts, so that no other task runs
            return is_read(channel)

        monkeypatch.setattr(LocalChannel, "input_is_read", after_a_while)
    return found


@pytest.mark.parametrize("kind", KINDS, indirect=True)
async def test_denied_command_never_runs_in_a_prepared_shell(tmp_path: Path, kind: Kind, seed_of_kind: int) -> None:
    choose = random.Random(seed_of_kind)
    shell = Shell(tmp_path, kind.shells[seed_of_kind % len(kind.shells)], POLICY, kind)
    await shell.try_all([attempt(choose, kind) for _ in range(KIND_ATTEMPTS)], choose)
    assert shell.oracle.read_text() == ""


@pytest.mark.parametrize("name", SHELLS)
async def test_attempts_run_the_command_without_a_policy(tmp_path: Path, name: str) -> None:
    await run_once(Shell(tmp_path, name, "off"), USUAL)


@pytest.mark.parametrize("kind", KINDS, indirect=True)
async def test_attempts_in_a_prepared_shell_run_the_command_without_a_policy(tmp_path: Path, kind: Kind) -> None:
    await run_once(Shell(tmp_path, kind.shells[0], "off", kind), kind)


async def run_once(shell: Shell, kind: Kind) -> None:
    """Make attempts until one runs the command: few of a round may."""
    choose = random.Random(1)
    for _ in range(20):
        await shell.try_all([attempt(choose, kind) for _ in range(ATTEMPTS)], choose)
        if shell.oracle.read_text():
            return
    pytest.fail("no attempt has run the command")
