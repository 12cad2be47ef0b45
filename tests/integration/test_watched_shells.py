"""What a watcher of a shell sees: each command as it was given, its output, and nothing of ptyctl's own lines."""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures.servers.openssh import OpenSshServer
from fixtures.servers.programs import require_program
from ptyctl import LocalController, SessionHandle
from ptyctl.api.handle import call_pty
from ptyctl.api.operator import WatchRequest
from ptyctl.api.screen import PtyReadScreen, PtyReadScrollback, ScreenReply, ScrollbackReply
from ptyctl.core.renderer import render
from ptyctl.core.sanitizer import TerminalSanitizer
from ptyctl.core.session_export import asciicast, html, plain_text
from ptyctl.session.transcript.recording_reader import read_recording
from tests.controller.session_calls import PATIENCE_MS
from tests.integration.test_ssh_exec import target

PROMPT = "pr$ "
SHELLS = {
    "bash": ("bash", "--norc", "--noprofile"),
    "zsh": ("zsh",),
    "fish": ("fish",),
    "dash": ("dash",),
    "ksh": ("ksh",),
    "mksh": ("mksh",),
    "busybox": ("busybox", "sh"),
}
#: Commands of each kind with their output. fish has another syntax for some.
_COMMANDS = {
    "simple": ("echo hi", "hi\n"),
    "status": ("sh -c 'exit 3'", ""),
    "quoted": ("""echo "it's" 'a "b"'""", 'it\'s a "b"\n'),
    "loop": ("for i in 1 2; do echo n$i; done", "n1\nn2\n"),
    "lines": ("echo one\necho two\necho three", "one\ntwo\nthree\n"),
    "document": ("cat <<'END'\nfirst $HOME\n  second\nEND", "first $HOME\n  second\n"),
}
_FISH = {
    "loop": ("for i in 1 2; echo n$i; end", "n1\nn2\n"),
    "document": ("printf '%s\\n' 'first\n  second'", "first\n  second\n"),
}
#: The prompt of the tests, or the default one of a shell that does not import PS1.
_PROMPT = re.compile(r"^\S*[#$] ")
_BARE = re.compile(r"\S*[#$]")
#: Text of ptyctl's own lines.
OURS = ("ptyctl", "eval", "7717", "ZSH_VERSION", "BASH_VERSION", "histignorespace", "$((")


@dataclass(slots=True)
class WatchedShell:
    """A session with the output that a watcher has received since it was opened."""

    controller: LocalController
    handle: SessionHandle
    folder: Path
    received: bytes = b""
    offset: int = 0

    async def watch(self) -> None:
        """Follow the session as the web console does."""
        request = WatchRequest(session_id=self.handle.session_id, from_offset=0, task_id="watcher")
        async with aclosing(self.controller.watch(request)) as items:
            async for item in items:
                if item.kind == "output":
                    self.received += b64decode(item.data_b64 or "")
                    self.offset = item.raw_offset or 0

    async def views(self) -> dict[str, str]:
        """Return what each view shows as text, once the watcher has all output."""
        session = {"session_id": self.handle.session_id}
        async with asyncio.timeout(PATIENCE_MS / 1000):
            screen = await call_pty(self.controller, PtyReadScreen.of(session), ScreenReply)
            while self.offset != screen.raw_offset or not _BARE.fullmatch("\n".join(screen.rows or ()).split()[-1]):
                await asyncio.sleep(0.02)  # the watch has no event to await
                screen = await call_pty(self.controller, PtyReadScreen.of(session), ScreenReply)
        request, rows = PtyReadScrollback.of(session), screen.rows or ()
        above = (await call_pty(self.controller, request, ScrollbackReply)).lines or ()
        return {
            "screen": "\n".join([*above, *rows]),
            "watch": render(TerminalSanitizer().feed(self.received), 120),
            "text": plain_text(read_recording(self.folder)),
            "html": html(read_recording(self.folder)),
            "cast": "".join(asciicast(read_recording(self.folder))),
        }


@pytest.fixture(params=["local", "ssh"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=SHELLS)
async def watched(
    request: pytest.FixtureRequest, controller: LocalController, sshd: OpenSshServer, tmp_path: Path, protocol: str
) -> AsyncIterator[WatchedShell]:
    """Open a shell with a home of its own, and watch it from its first byte."""
    shell = SHELLS[request.param]
    require_program(shell[0], shell[0])
    home = tmp_path / "home"
    (home / ".config" / "fish").mkdir(parents=True)
    (home / ".config" / "fish" / "config.fish").write_text(
        f"function fish_prompt; printf '{PROMPT}'; end\nset -g fish_greeting\n"
    )
    (home / ".zshrc").write_text(f"PS1='{PROMPT}'\n")
    (home / "history").mkdir()
    variables = {"HOME": str(home), "ZDOTDIR": str(home), "PS1": PROMPT, "ENV": "", "HISTFILE": str(home / "history" / "file")}
    fields = target(sshd, command=("env", *(f"{name}={value}" for name, value in variables.items()), *shell))
    if protocol == "local":
        fields = {"protocol": "local", "command": shell, "env": variables}
    async with AsyncExitStack() as stack:
        handle = await stack.enter_async_context(await SessionHandle.open(controller, **fields, shell_integration="auto"))
        found = WatchedShell(controller, handle, tmp_path / "state" / "sessions" / handle.session_id)
        watching = asyncio.create_task(found.watch())
        yield found
        watching.cancel()
        await asyncio.wait({watching})


def assert_nothing_of_ours(views: dict[str, str]) -> None:
    for name, shown in views.items():
        assert [text for text in OURS if text in shown] == [], f"{name}:\n{shown}"


def without_prompts(shown: str) -> str:
    """Return the rows without their prompts, and without rows that have a prompt alone."""
    rows = (_PROMPT.sub("", row).rstrip() for row in shown.split("\n") if not _BARE.fullmatch(row.strip()))
    return "\n".join(rows).rstrip() + "\n"


async def test_watcher_sees_commands_as_given_and_nothing_of_ours(
    watched: WatchedShell, request: pytest.FixtureRequest
) -> None:
    is_fish = request.node.callspec.params["watched"] == "fish"
    expected = ""
    for command, output in ({**_COMMANDS, **_FISH} if is_fish else _COMMANDS).values():
        reply = await watched.handle.exec(command, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code) == (output, 3 if "exit 3" in command else 0), command
        expected += f"{command}\n{output}"
    views = await watched.views()
    assert_nothing_of_ours(views)
    for name in ("screen", "watch", "text"):
        assert without_prompts(views[name]).endswith(expected), f"{name}:\n{views[name]}"


@pytest.mark.parametrize("watched", ["bash", "zsh", "fish"], indirect=True)
async def test_shell_with_marks_gets_commands_as_given(
    watched: WatchedShell, protocol: str, request: pytest.FixtureRequest
) -> None:
    is_fish = request.node.callspec.params["watched"] == "fish"
    if is_fish and protocol == "ssh":
        pytest.skip("fish gets no marks over SSH")
    await watched.handle.exec("true", timeout_ms=PATIENCE_MS)
    begin = len((watched.folder / "output.raw").read_bytes().rstrip(b"\0"))
    for command, output in ({**_COMMANDS, **_FISH} if is_fish else _COMMANDS).values():
        reply = await watched.handle.exec(command, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.done_reason) == (output, "marks"), command
    received = (watched.folder / "output.raw").read_bytes()[begin:]
    assert b"__ptyctl" not in received
    assert b"eval" not in received


@pytest.mark.parametrize("watched", ["bash", "zsh"], indirect=True)
@pytest.mark.parametrize("command", ["for i in 1 2; do", "echo 'open", "if true", "echo a |", "(", "echo )"])
async def test_incomplete_command_ends_with_an_error(watched: WatchedShell, command: str) -> None:
    reply = await watched.handle.exec(command, timeout_ms=PATIENCE_MS)
    assert reply.exit_code not in (0, None)
    assert (await watched.handle.exec("echo next", timeout_ms=PATIENCE_MS)).stdout == "next\n"
    assert_nothing_of_ours({name: text for name, text in (await watched.views()).items() if name in ("screen", "text")})


@pytest.mark.parametrize("watched", ["bash", "dash"], indirect=True)
async def test_output_of_a_background_job_is_in_the_recording_whole(watched: WatchedShell) -> None:
    await watched.handle.exec("true", timeout_ms=PATIENCE_MS)
    job = "(i=0; while :; do echo BG$i; i=$((i+1)); sleep 0.01; done) &"
    await watched.handle.exec(job, timeout_ms=PATIENCE_MS)
    for _ in range(5):
        await watched.handle.exec("echo one\necho two # x", timeout_ms=PATIENCE_MS)
    await watched.handle.exec("kill $!; wait", timeout_ms=PATIENCE_MS)
    received = (watched.folder / "output.raw").read_bytes()
    recorded = b"".join(frame.data or b"" for frame in read_recording(watched.folder).frames)
    assert set(re.findall(rb"BG\d+", received)) == set(re.findall(rb"BG\d+", recorded))
