"""The commands that scripts and agents run most often, without the imports of the others: no models, event loop or parser.

`run_frequent` parses plain command lines of these commands. It leaves all others, help and errors of the command line to the
application in `app.py`, whose commands call the same functions.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from ptyctl.daemon.control import BlockingClient, request
from ptyctl.daemon.errors import EXIT_INTERRUPTED
from ptyctl.daemon.runtime_dir import RuntimeDir

from .errors import (
    EXEC_OFFSET,
    EXIT_FAILED,
    EXIT_TIMED_OUT,
    SESSION_ERRORS,
    print_message,
    report_error,
    session_named,
)
from .names import MAX_CALL_MS, SESSION_ID, ListedSession, match_session, name_holder, resolve_task
from .output import format_size, print_json, print_text, progress, replace_controls
from .session_list import print_sessions

_MAX_OUTPUT_BYTES = 4 << 20
TAIL_BYTES = 4 << 20


def exec_command(name: str, command: str, *, timeout: float | None, task: str | None, as_json: bool) -> int:
    """Run a command, print its output, and return its exit code. An exit code above 100 is ptyctl's own."""
    try:
        return _exec(name, command, timeout, resolve_task(task), as_json)
    except SESSION_ERRORS as error:
        return EXEC_OFFSET + report_error(error)


def send_input(
    name: str,
    text: str | None,
    keys: Sequence[str],
    *,
    enter: bool,
    sensitive: bool,
    approval: str | None,
    task: str | None,
    as_json: bool,
) -> None:
    """Type a text, or standard input if it is `-`, then press keys.

    Args:
        approval: the id of the approval request for the first of these inputs.
    """
    data = sys.stdin.read() if text == "-" else None if text is None else text + "\n" * enter
    writes: list[dict[str, Any]] = [{"data": data, **({"sensitive": True} if sensitive else {})}] if data else []
    writes += [{"key": key} for key in keys]
    if approval is not None and writes:
        writes[0]["approval_id"] = approval
    with _session(name) as (client, session_id):
        common = {"session_id": session_id, "action": "write", "task_id": resolve_task(task)}
        replies = [client.call("ptyctl_session_io", {**common, **fields}) for fields in writes]
    if as_json:
        # Reading from the first write's cursor returns everything that the writes caused.
        first_cursor = replies[0]["next_cursor"] if replies else None
        print_json({"bytes_written": sum(reply["bytes_written"] for reply in replies), "next_cursor": first_cursor})


def print_tail(name: str, lines: int, *, as_json: bool) -> None:
    """Print the last lines of a session's text."""
    with _session(name) as (client, session_id):
        read = {"session_id": session_id, "action": "read", "mode": "tail", "max_bytes": TAIL_BYTES}
        reply = client.call("ptyctl_session_io", {**read, "max_lines": max(lines, 1)})
    if not lines:
        reply["chunk"] = ""
    if as_json:
        print_json(reply)
    else:
        print_text(reply.get("chunk") or "")


def lock_action(action: str, name: str, task: str | None, **fields: object) -> dict[str, Any]:
    """Call a `session` action that depends on the lock, as this terminal's task or `task`, and return the reply's fields."""
    with _session(name) as (client, session_id):
        params = {"action": action, "session_id": session_id, "task_id": resolve_task(task), **fields}
        return client.call("ptyctl_session", params)


def print_holder(reply: dict[str, Any], *, as_json: bool) -> None:
    """Print who holds the lock."""
    if as_json:
        print_json(reply)
        return
    holder = name_holder(reply.get("lock_holder"), reply.get("lock_principal"))
    print(f"locked by: {replace_controls(holder)}" if holder else "not locked")


def close_session(name: str, *, force: bool, task: str | None, as_json: bool) -> None:
    """Close a session."""
    reply = lock_action("close", name, task, **({"force": True} if force else {}))
    if as_json:
        print_json(reply)
    else:
        print(f"closed: {reply['session_id']}")
        for process in reply.get("left_running", ()):
            detached = " (detached)" if process.get("detached") else ""
            print(f"still running{detached}: {process['pid']} {replace_controls(process['command'])}")


@contextmanager
def _session(name: str) -> Iterator[tuple[BlockingClient, str]]:
    """Connect to the daemon, and resolve the name of a session to its id."""
    with BlockingClient(RuntimeDir()) as client, session_named(name):
        if SESSION_ID.fullmatch(name):
            yield client, name
            return
        entries = client.call("ptyctl_session", {"action": "list"}).get("sessions") or []
        sessions = [ListedSession(*map(entry.get, ListedSession._fields)) for entry in entries]
        yield client, match_session(sessions, name)


def _exec(name: str, command: str, timeout_s: float | None, task_id: str, as_json: bool) -> int:
    """Print the output and return the command's exit code; on a device 0, or 1 if the output has signs of an error."""
    with _session(name) as (client, session_id):
        reply = _FollowedCommand(client, session_id, task_id).run(command, timeout_s)
    if reply is None:
        return EXIT_INTERRUPTED
    if as_json:
        print_json(reply)
    else:
        print_text(reply["stdout"])
        for notice in reply.get("notices") or ():
            print_message(notice)
    if reply["output_truncated"]:
        complete = f"ptyctl blocks {name} --output {reply['block_id']}"
        print_message(f"{reply['omitted_bytes']} bytes are omitted in the middle; complete output: {complete}")
    if _is_unfinished(reply) or reply["done_reason"] == "question":
        print_message(_unfinished_message(reply, name))
        return EXEC_OFFSET + EXIT_TIMED_OUT
    exit_code: int | None = reply.get("exit_code")
    if exit_code is not None:
        return exit_code
    return EXIT_FAILED if reply.get("error_hints") else 0


def _unfinished_message(reply: dict[str, Any], name: str) -> str:
    if reply.get("message"):
        return f"block {reply['block_id']}: {reply['message']}"
    if reply["done_reason"] == "question":
        return f"block {reply['block_id']} waits for input; type it with: ptyctl send {shlex.quote(name)} TEXT"
    doing = "running" if reply["timed_out"] else "waiting for an approval"
    return f"still {doing} as block {reply['block_id']}; follow it with: ptyctl tail -f"


def _is_unfinished(reply: dict[str, Any]) -> bool:
    """Return whether the command has not ended: it runs, or waits for an approval."""
    return bool(reply["timed_out"]) or reply["done_reason"] == "approval"


class _StopWaiting(Exception):
    """The user pressed Ctrl-C a second time."""


class _FollowedCommand:
    """One command and the calls that wait for it."""

    def __init__(self, client: BlockingClient, session_id: str, task_id: str) -> None:
        self._client = client
        self._target = {"session_id": session_id, "task_id": task_id}
        self._spinner = ExitStack()
        self._status: Any = None
        self._interrupted = False
        self._previous_calls_s = 0.0
        self._asked_for_approval = False

    def run(self, command: str, timeout_s: float | None) -> dict[str, Any] | None:
        """Return the reply when the command ends or the timeout passes, or None after a second Ctrl-C."""
        previous = signal.signal(signal.SIGINT, lambda *_: self._interrupt())
        try:
            with self._spinner:
                return self._run(command, timeout_s)
        except _StopWaiting:
            return None
        finally:
            signal.signal(signal.SIGINT, previous)

    def _run(self, command: str, timeout_s: float | None) -> dict[str, Any]:
        started_at = time.monotonic()
        run: dict[str, object] = {"cmd": command}
        while True:
            self._previous_calls_s = time.monotonic() - started_at
            remaining_ms = MAX_CALL_MS if timeout_s is None else max((timeout_s - self._previous_calls_s) * 1000, 0)
            limits = {"timeout_ms": round(min(remaining_ms, MAX_CALL_MS)), "max_output_bytes": _MAX_OUTPUT_BYTES}
            reply = self._client.call("ptyctl_session_exec", {**self._target, **run, **limits}, self._show_progress)
            if not _is_unfinished(reply) or (remaining_ms <= MAX_CALL_MS and timeout_s is not None):
                return reply
            run = {"block_id": reply["block_id"]}

    def _interrupt(self) -> None:
        """Send Ctrl-C to the command on the first call; stop waiting on the second.

        The reply is not read: without the lock the command cannot be interrupted, only left.
        """
        if self._interrupted:
            raise _StopWaiting
        self._interrupted = True
        self._client.send("ptyctl_session_io", {**self._target, "action": "write", "key": "ctrl_c"})

    def _show_progress(self, received: int, seconds: float) -> None:
        if not received and not self._asked_for_approval:
            self._asked_for_approval = True
            self._show_approval()
        if self._status is None:
            self._status = self._spinner.enter_context(progress())
        if self._status is not None:
            self._status.update(f"{self._previous_calls_s + seconds:.0f} s, {format_size(received)}")

    def _show_approval(self) -> None:
        """Print the request if the command waits for an approval: without output, it may."""
        query = {"action": "list", "session_id": self._target["session_id"], "state": "pending"}
        try:
            requests = (request(RuntimeDir(), "approvals", query) or {}).get("approvals", [])
        except SESSION_ERRORS:
            return
        for entry in (entry for entry in requests if entry.get("task_id") == self._target["task_id"]):
            print_message(
                f"a person must approve this first: {entry['reason']}; "
                f"nothing is typed until another person runs: ptyctl approve {entry['approval_id']}"
            )


class _Option(NamedTuple):
    """An option of a command: the argument that it sets, and the converter of its value; a flag has none."""

    argument: str
    convert: Callable[[str], Any] | None = None
    least: float = float("-inf")
    most: float = float("inf")
    repeated: bool = False
    flag: bool = True


_COMMON = {"--task": _Option("task", str), "--json": _Option("as_json")}
_KEY = _Option("keys", str, repeated=True)
_LINES = _Option("lines", int, least=0)
_ALL = _Option("include_ended")
_OPTIONS: Mapping[str, Mapping[str, _Option]] = {
    "sessions": {"--json": _COMMON["--json"], "--all": _ALL, "-a": _ALL},
    "exec": {**_COMMON, "--timeout": _Option("timeout", float, least=0)},
    "send": {
        **_COMMON,
        "--key": _KEY,
        "-k": _KEY,
        "--no-enter": _Option("enter", flag=False),
        "--sensitive": _Option("sensitive"),
        "--approval": _Option("approval", str),
    },
    "tail": {"--json": _COMMON["--json"], "--lines": _LINES, "-n": _LINES},
    "lock": {**_COMMON, "--ttl": _Option("ttl", float, least=0.001, most=86_400)},
    "unlock": _COMMON,
    "close": {**_COMMON, "--force": _Option("force")},
}


def run_frequent(arguments: list[str]) -> int | None:
    """Run the command and return its exit code; None for another command, or a command line that is not plain."""
    if not arguments or (options := _OPTIONS.get(arguments[0])) is None:
        return None
    parsed = _parse(arguments[1:], options)
    if parsed is None:
        return None
    words, values = parsed
    if "--task" in options:
        values.setdefault("task", os.environ.get("PTYCTL_TASK"))
    values.setdefault("as_json", False)
    match arguments[0], words:
        case "sessions", []:
            print_sessions(**{"include_ended": False, **values})
        case "exec", [name, _, *_]:
            return exec_command(name, " ".join(words[1:]), **{"timeout": None, **values})
        case "send", [name, *text] if len(text) <= 1 and (text or values.get("keys")):
            send_input(
                name, text[0] if text else None, **{"keys": [], "enter": True, "sensitive": False, "approval": None, **values}
            )
        case "tail", [name]:
            print_tail(name, **{"lines": 10, **values})
        case "lock", [name]:
            reply = lock_action("lock", name, values["task"], lock_ttl_ms=round(values.get("ttl", 60) * 1000))
            print_holder(reply, as_json=values["as_json"])
        case "unlock", [name]:
            print_holder(lock_action("unlock", name, values["task"]), as_json=values["as_json"])
        case "close", [name]:
            close_session(name, **{"force": False, **values})
        case _:
            return None
    return 0


def _parse(arguments: Sequence[str], options: Mapping[str, _Option]) -> tuple[list[str], dict[str, Any]] | None:
    """Return the positional arguments and the values of the options; None for anything unusual."""
    words, values, rest = list[str](), dict[str, Any](), iter(arguments)
    for word in rest:
        if word == "--":
            return [*words, *rest], values
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        name, equals, text = word.partition("=")
        option = options.get(name)
        if option is None or (equals and (option.convert is None or not name.startswith("--"))):
            return None
        if option.convert is None:
            values[option.argument] = option.flag
            continue
        given = text if equals else next(rest, None)
        try:
            value = None if given is None else option.convert(given)
        except ValueError:
            return None
        if value is None or (isinstance(value, int | float) and not option.least <= value <= option.most):
            return None
        values[option.argument] = [*values.get(option.argument, []), value] if option.repeated else value
    return words, values
