"""The rows of the interactive terminal contract, and the tests that prove them.

A row is named by its section and its place there. A test proves a row if the id of one of its cases has the row's name: a
string `spec-5.2-1` in its decorators. One id may name several rows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
#: Tests that may prove rows.
PLACES = ("terminal", "daemon", "mcp", "cli")
_NAME = re.compile(r"\bspec-[\d.]+-\d+\b")

#: The rows of each section, in the order of the contract.
SECTIONS: dict[str, tuple[str, ...]] = {
    "1.1": (  # legacy actions
        "`run` is `execute`",
        "`kill` is `terminate` of `session_id`",
        "`send` is `execute` in an existing `terminal_id`",
        "`close` is `terminate` of `terminal_id`",
        "`create` is `execute`, `open_only`, interactive, without a command",
        "`list` is `list`",
    ),
    "1.2": (  # deprecation
        "phase A accepts legacy actions and adds `compat.alias_applied`",
        "phase B adds a deterministic deprecation warning",
        "phase C rejects legacy actions with the canonical request",
    ),
    "2.1": ("a request with every field is accepted",),
    "2.2": ("a response has every part",),
    "2.3": (
        "`execute` requires `invocation.mode`",
        "`execute` requires `invocation.intent`",
        "`execute_command` requires `execution.command`",
        "`open_only` forbids `execution.command`",
        "`read_output` requires a target",
        "`terminate` requires a target",
        "`list` forbids `execution`",
        "`list` forbids `target`",
        "headless: a new `execute` forbids `target.terminal_id`",
        "headless: `target.session_id` is allowed to read and to terminate",
        "interactive: `target.terminal_id` is allowed",
        "interactive: `open_only` is allowed",
        "every request has a `request_id`",
        "an absent `request_id` is generated deterministically",
        "`trace_id` is passed on unchanged",
        "`compat.legacy_action` maps to one canonical action",
        "an unknown alias fails with a migration hint",
    ),
    "3.1": (
        "`PM_TERM_INVALID_ACTION`: unknown action or alias",
        "`PM_TERM_INVALID_PAYLOAD`: a rule of the schema is violated",
        "`PM_TERM_INVALID_MODE`: unsupported mode",
        "`PM_TERM_DECLINED`: a person declined",
        "`PM_TERM_TIMEOUT`: command or handshake timeout",
        "`PM_TERM_DISCONNECTED`: bridge or socket dropped",
        "`PM_TERM_GUI_UNAVAILABLE`: the runtime is unavailable",
        "`PM_TERM_BLOCKED_DESTRUCTIVE`: a destructive command is blocked",
        "`PM_TERM_NOT_FOUND`: unknown terminal or session",
        "`PM_TERM_INTERNAL`: any other exception",
    ),
    "3.2": ("an error payload has every field",),
    "3.3": (
        "the same code and request class have the same fallback",
        "every failure has a fallback",
        "`PM_TERM_INTERNAL` has a sanitized message and the trace id, no stack",
        "a decline is never retried automatically",
    ),
    "5.1": ("`connect`", "`healthCheck`", "`sendRequest`", "`awaitResponse`", "`close`", "`recover`"),
    "5.2": (
        "first: `runtime.adapter_override`",
        "second: `PM_TERM_ADAPTER_MODE`",
        "third: `PM_RUNNING_IN_CONTAINER=true`",
        "last: `local_or_bundled_auto`",
        "`container_bridge` without its inputs is `PM_TERM_INVALID_MODE`",
        "an unknown adapter is `PM_TERM_INVALID_PAYLOAD`",
        "`auto` in a container is `container_bridge`",
        "`auto` elsewhere is `local_or_bundled_auto`",
    ),
    "5.3": (
        "the local adapter is tried first",
        "then the bundled adapter",
        "then the PATH lookup",
        "if all fail, `PM_TERM_GUI_UNAVAILABLE` lists the sources",
    ),
    "6.1": (
        "first: the configured absolute path",
        "second: the bundled program",
        "third: the PATH lookup",
        "a candidate must exist and be executable",
        "a relative configured path is `PM_TERM_INVALID_PAYLOAD`",
        "the first valid candidate is used, without a race",
    ),
    "6.2": (
        "the program gets the resolved environment",
        "the readiness timer is 8,000 ms, at most 30,000",
        "a readiness handshake is required",
        "after the handshake the adapter is ready",
        "on a timeout or failure the program is ended, and the next candidate follows",
        "the protocol version is checked before any command",
        "the handshake has `trace_id` and `runtime_session_id`",
    ),
    "6.3": (
        "one retry of a candidate for a transient failure",
        "no retry of a validation failure",
        "then the next candidate",
        "no other process is ended",
        "no user configuration is changed",
        "nothing is installed",
        "a failure has `attempted_candidates`, `spawn_errors` and the next action",
    ),
    "7.1": (
        "host alias: `host.containers.internal`, then `host.docker.internal`",
        "the protocol is TCP",
        "`PM_INTERACTIVE_TERMINAL_HOST_PORT`, default 45459",
        "`PM_INTERACTIVE_TERMINAL_CONNECT_TIMEOUT_MS`, default 3,000",
        "`PM_INTERACTIVE_TERMINAL_REQUEST_TIMEOUT_MS`, default 30,000",
        "aliases are tried in the configured order",
        "each connection attempt has a timeout",
        "the handshake has version and capabilities",
        "a failed handshake is `PM_TERM_DISCONNECTED` or `PM_TERM_TIMEOUT`",
        "the error names the alias and port of each attempt",
    ),
    "7.2": (
        "`PM_RUNNING_IN_CONTAINER`",
        "`PM_TERM_ADAPTER_MODE=container_bridge`",
        "`PM_INTERACTIVE_TERMINAL_HOST_ALIAS`",
        "`PM_INTERACTIVE_TERMINAL_HOST_PORT`",
        "`PM_INTERACTIVE_TERMINAL_CONNECT_TIMEOUT_MS`",
        "`PM_INTERACTIVE_TERMINAL_REQUEST_TIMEOUT_MS`",
        "`PM_INTERACTIVE_TERMINAL_TRACE_BRIDGE`",
    ),
    "7.3": (
        "Containerfile: defaults of the variables, without a host alias",
        "Containerfile: the variables can be overridden",
        "entrypoint: validates the variables before the server starts",
        "entrypoint: prints what is missing",
        "run script: maps the host alias",
        "run script: passes port and variables",
        "run script: warns if the bridge cannot be reached",
        "missing bridge configuration is `PM_TERM_INVALID_MODE`",
        "an unreachable host is `PM_TERM_GUI_UNAVAILABLE`",
        "a dropped connection is `PM_TERM_DISCONNECTED`",
    ),
    "9.1": ("`memory_terminal_interactive` is the one tool, with the canonical actions",),
    "9.2": (
        "`run` becomes `execute` with `execute_command`; fields move to `execution`",
        "`kill` becomes `terminate` with `target.session_id`",
        "`send` becomes `execute` with `target.terminal_id`",
        "`close` becomes `terminate` with `target.terminal_id`",
        "`create` becomes `execute` with `open_only`",
    ),
    "9.3": (
        "`resolved.alias_applied` and `resolved.legacy_action` are set",
        "canonical callers get no alias metadata",
        "the deprecation is staged: metadata, warning, rejection",
    ),
    "9.4": (
        "precedence: `runtime.adapter_override`",
        "precedence: `PM_TERM_ADAPTER_MODE`",
        "precedence: `PM_RUNNING_IN_CONTAINER=true`",
        "precedence: the local default",
        "preflight: invalid bridge variables are `PM_TERM_INVALID_MODE`",
        "preflight: an unreachable bridge is `PM_TERM_GUI_UNAVAILABLE`",
    ),
    "9.5": ("the container has every variable of the checklist", "host alias routing is configured", "a bridge listens"),
    "9.6": (
        "the page shows the payload of GUI unavailable",
        "the page shows the payload of an unreachable bridge",
        "the page shows the payload of a timeout",
        "the page shows the payload of a decline",
    ),
}


def rows() -> dict[str, str]:
    """Return the text of each row by its name."""
    return {f"spec-{section}-{n}": text for section, texts in SECTIONS.items() for n, text in enumerate(texts, 1)}


def proofs() -> dict[str, list[str]]:
    """Return the tests of each row that has any, as `file::function`."""
    found: dict[str, list[str]] = {}
    for path in sorted(path for place in PLACES for path in (TESTS / place).glob("test_*.py")):
        for name, test in _named_rows(path):
            found.setdefault(name, []).append(f"{path.relative_to(TESTS)}::{test}")
    return found


def _named_rows(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the rows that the ids of a module's tests name, each with the test."""
    text = path.read_text()
    if "spec-" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            constants = (each for decorator in node.decorator_list for each in ast.walk(decorator))
            texts = [each.value for each in constants if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            for name in dict.fromkeys(name for each in texts for name in _NAME.findall(each)):
                yield name, node.name


def render_table() -> str:
    """Return the table of the documentation."""
    proven = proofs()
    lines = ["| row | requirement | test |", "|---|---|---|"]
    for name, text in rows().items():
        tests = "<br>".join(f"`{test}`" for test in proven.get(name, ())) or "none yet"
        lines.append(f"| {name.removeprefix('spec-')} | {text} | {tests} |")
    return "\n".join(lines)
