"""`ptyctl approvals`, `approve`, `decline` and the live inbox, on a daemon with requests."""

from __future__ import annotations

import asyncio
import json
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.daemons import daemon_folder
from fixtures.servers.openssh import OpenSshServer, running_sshd
from fixtures.servers.programs import require_program
from fixtures.tmux.person import ENDED, RESTORED, Person
from fixtures.tmux.server import running_tmux
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.core.lease import Owner
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.session.approvals import Approval, HeldText
from ptyctl.session.clients import user_agent
from tests.cli.command_line import PROGRAM, is_one_line, open_local, ptyctl, start, terminal_environment
from tests.controller.local_daemon import served

HELD = HeldText(
    session_id="20260101-000000-00000000", device="sw1", platform="cisco_ios", mode="exec",
    owner=Owner(user_agent().name, "night"), text="reload", canonical="reload", rules=("reload",),
    reason="it restarts the device", binding="hash", screen=("sw1#show version", "uptime is 3 years", ""),
)  # fmt: skip


class Daemon:
    """A daemon in a thread of the test process."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="daemon")

    def __enter__(self) -> Daemon:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        with daemon_folder() as folder:
            self.folder = folder
            async with LocalController() as controller, served(AccessController(controller), folder):
                self.controller = controller
                self._ready.set()
                await self._stopped.wait()

    def call(self, function: Callable[[], Any]) -> Any:
        """Call a function in the daemon's thread and return its result."""

        async def run() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def wait_for_notify_command(self) -> None:
        """Wait until the notify commands have ended."""

        async def run() -> None:
            await asyncio.gather(*self.controller._approval_calls._notifier._tasks)

        asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def ask(self, **fields: Any) -> Approval:
        """Make a request, as a session does."""
        request: Approval = self.call(lambda: self.controller.approval_requests.ask(replace(HELD, **fields)))
        return request


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    with Daemon() as daemon:
        monkeypatch.setenv("PTYCTL_RUNTIME_DIR", str(daemon.folder))
        yield daemon


def test_request_is_listed_shown_and_approved(daemon: Daemon) -> None:
    request = daemon.ask()
    head, row = ptyctl("approvals").out.splitlines()
    assert head.split()[:3] == ["ID", "LEFT", "STATE"]
    assert request.approval_id in row
    assert "it restarts the device" in row
    shown = ptyctl("approvals", "show", request.approval_id).out
    assert "  uptime is 3 years\n" in shown
    assert ptyctl("approvals", "--json").json["approvals"][0]["text"] == "reload"
    result = ptyctl("approve", request.approval_id, "--comment", "go", "--for", "10m", "--same", "--keys", "60s")
    assert (result.code, result.out) == (0, f"approved: reload on sw1, for {user_agent().name}, task night\n")
    assert daemon.call(lambda: daemon.controller.approval_requests.covers(HELD))
    assert daemon.call(lambda: daemon.controller.approval_requests.keys_allowed(HELD.session_id, HELD.owner))
    assert (request.via, request.comment) == ("cli", "go")
    assert "the same for" in ptyctl("approvals").out
    assert daemon.call(request.redeem) == "reload"
    assert ptyctl("approvals", "revoke", request.approval_id).code == 0
    assert not daemon.call(lambda: daemon.controller.approval_requests.covers(HELD))
    empty = ptyctl("approvals")
    assert (empty.out, "nothing waits" in empty.err) == ("", True)
    assert "used, by" in ptyctl("approvals", "--all").out


def test_declined_and_edited_requests(daemon: Daemon) -> None:
    first, second = daemon.ask(), daemon.ask(binding="other")
    result = ptyctl("decline", first.approval_id, "--comment", "not tonight", "--json")
    assert (result.json["state"], result.json["comment"]) == ("declined", "not tonight")
    assert ptyctl("approve", second.approval_id, "--text", "reload in 5\n").out.startswith("approved: reload in 5 on sw1")
    assert daemon.call(second.redeem) == "reload in 5"
    assert "reload → reload in 5" in ptyctl("approvals", "--all").out


def test_approved_text_is_sent_with_the_id_of_its_request(
    runtime_dir: RuntimeDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = 'id = "echo"\nwhen = { platform = "linux" }\ncommand = ["echo"]\ndecision = "ask"\nreason = "a test"'
    (tmp_path / "policy.toml").write_text(f'extends = ["guarded"]\n[[rules]]\n{rule}\n')
    monkeypatch.setenv("PTYCTL_POLICY", str(tmp_path / "policy.toml"))
    monkeypatch.setenv("PTYCTL_APPROVALS", '{"allow_self": true}')
    shell = open_local()
    text = "echo $((20 + 22)) answers"
    assert ptyctl("send", shell, text).code != 0
    (request,) = ptyctl("approvals", "--json").json["approvals"]
    assert ptyctl("approve", request["approval_id"]).code == 0
    sent = ptyctl("send", shell, text, "--approval", request["approval_id"])
    assert sent.code == 0, sent
    assert ptyctl("exec", shell, "--", "true").code == 0
    assert "\n42 answers\n" in ptyctl("tail", shell, "--lines", "20").out
    assert ptyctl("send", shell, text, f"--approval={request['approval_id']}").code != 0


def test_second_answer_and_unknown_request_are_refused_clearly(daemon: Daemon) -> None:
    request = daemon.ask()
    daemon.call(lambda: daemon.controller.approval_requests.session_ended(HELD.session_id, "the session was closed"))
    for command in (("approve",), ("decline",), ("approvals", "revoke")):
        result = ptyctl(*command, request.approval_id)
        assert (result.code, is_one_line(result.err)) == (3, True)
        assert "withdrawn before: the session was closed; nothing has changed" in result.err
    result = ptyctl("approve", "ap-nope")
    assert (result.code, is_one_line(result.err)) == (3, True)


def test_own_request_is_not_approved(daemon: Daemon) -> None:
    request = daemon.ask(owner=Owner(user_agent().name.removesuffix("/mcp"), "me"))
    result = ptyctl("approve", request.approval_id)
    assert (result.code, "another person" in result.err) == (1, True)


@pytest.mark.parametrize(
    "options", [("--same",), ("--for", "10m"), ("--for", "x", "--same"), ("--keys", "5"), ("--keys", "2h"), ("--text", "")]
)
def test_wrong_options_answer_nothing(daemon: Daemon, options: tuple[str, ...]) -> None:
    request = daemon.ask()
    assert ptyctl("approve", request.approval_id, *options).code == 2
    assert request.state == "pending"


def test_controls_in_text_do_not_reach_the_terminal(daemon: Daemon) -> None:
    request = daemon.ask(text="reload\x1b[2J\u202e", reason="\x1b]0;x\x07", screen=("\x1b[31m",))
    for command in (("approvals",), ("approvals", "show", request.approval_id)):
        assert "\\x1b[2J\\u202e" in (out := ptyctl(*command).out)
        assert out.replace("\n", "").isprintable()


def test_failed_notify_command_is_reported_also_by_doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_APPROVALS", json.dumps({"notify_command": ["false"]}))
    (tmp_path / "devices.toml").write_text('[devices.edge]\nhost = "192.0.2.1"\n')
    monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(tmp_path / "devices.toml"))
    with Daemon() as daemon:
        monkeypatch.setenv("PTYCTL_RUNTIME_DIR", str(daemon.folder))
        daemon.ask()
        daemon.wait_for_notify_command()
        assert "the notify command failed: false: it ended with exit code 1" in ptyctl("approvals").err
        assert "FAIL  approvals    requests are not announced: false: it ended with exit code 1" in ptyctl("doctor", "edg").out


def test_watch_without_terminal_is_refused(daemon: Daemon) -> None:
    result = ptyctl("approvals", "--watch")
    assert (result.code, "needs a terminal" in result.err) == (2, True)


def over_ssh(sshd: OpenSshServer, command: Sequence[str]) -> list[str]:
    """Return how to run a command on this machine over SSH, in a terminal and with the test's daemon."""
    variables = [f"{name}={value}" for name, value in terminal_environment().items()]
    options = (
        "-tt",
        "-F",
        "none",
        "-i",
        str(sshd.key_path),
        "-p",
        str(sshd.port),
        "-o",
        f"UserKnownHostsFile={sshd.known_hosts}",
    )
    remote = shlex.join(["env", *variables, *command])
    return [require_program("ssh", "openssh-client"), *options, f"{sshd.username}@{sshd.host}", remote]


@pytest.mark.parametrize("is_remote", [False, True], ids=["terminal", "ssh"])
def test_inbox_in_a_terminal_of_80x24(daemon: Daemon, is_remote: bool) -> None:
    with running_tmux() as tmux, running_sshd() if is_remote else nullcontext() as sshd:
        command = [*PROGRAM, "approvals", "--watch"]
        arguments = command if sshd is None else over_ssh(sshd, command)
        person = Person(tmux, arguments, terminal_environment(), 80, 24)
        person.sees("nothing waits for an approval")
        person.until(lambda rows: bool(daemon.call(lambda: daemon.controller.approval_requests.answerable)))
        first = daemon.ask()
        person.sees("select a request with j and k")
        person.press("j")
        person.sees("because it restarts the device (reload)")
        person.press("v")
        person.sees("uptime is 3 years")
        person.press("v")
        person.sees("a approve")
        person.press("a")
        person.sees("approved: reload")
        assert (first.state, first.via) == ("approved", "cli")
        second = daemon.ask(text="write erase", canonical="write erase", binding="other")
        person.sees("approvals: 1 waiting")
        person.press("j")
        person.until(lambda rows: any(row.startswith(">") and "write erase" in row for row in rows))
        person.sees("d decline")
        person.press("d")
        person.sees("decline, because:")
        person.type("not tonight")
        person.sees("because: not tonight")
        person.press("Enter")
        person.sees("declined: write erase")
        assert second.comment == "not tonight"
        person.press("q")
        person.sees(ENDED)
        if not is_remote:  # ssh prints a line after it
            person.sees(RESTORED)


@pytest.fixture
def asking_daemon(runtime_dir: RuntimeDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon whose policy holds back `rm`, and on which people approve their own requests."""
    (tmp_path / "policy.toml").write_text(
        '[[rules]]\nid = "rm"\nwhen = { platform = "linux" }\ncommand = ["rm"]\ndecision = "ask"\nreason = "removes files"\n'
    )
    monkeypatch.setenv("PTYCTL_POLICY", str(tmp_path / "policy.toml"))
    monkeypatch.setenv("PTYCTL_APPROVALS", json.dumps({"allow_self": True}))


@pytest.mark.usefixtures("asking_daemon")
@pytest.mark.parametrize("answer", ["approve", "decline"])
def test_exec_reports_that_it_waits_and_continues_after_the_answer(tmp_path: Path, answer: str) -> None:
    file = tmp_path / "file"
    file.touch()
    session = open_local()
    process = start("exec", session, "--", "rm", str(file))
    waits = process.stderr.readline()
    assert "a person must approve this first: removes files" in waits
    assert file.exists()
    assert ptyctl(answer, waits.split()[-1], "--comment", "as agreed").code == 0
    _, err = process.communicate()
    assert (process.returncode, file.exists()) == ((0, False) if answer == "approve" else (101, True))
    assert ("as agreed" in err) == (answer == "decline")


@pytest.mark.usefixtures("asking_daemon")
def test_exec_that_waits_longer_than_its_timeout_exits_with_105(tmp_path: Path) -> None:
    result = ptyctl("exec", open_local(), "--timeout", "0.1", "--", "rm", str(tmp_path / "file"))
    assert (result.code, "still waiting for an approval as block" in result.err) == (105, True)
