"""`ptyctl policy`: judge a text without typing it, test and show policies, and load the daemon's again."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ptyctl.api.policy import PolicyReply, PolicyRequest, PolicyRule
from ptyctl.core.principal import Kind
from ptyctl.daemon import control
from ptyctl.daemon.runtime_dir import RuntimeDir

from .client import call_daemon, resolve_session, without_none
from .errors import EXIT_FAILED, EXIT_NOT_FOUND, SESSION_ERRORS, format_error, print_message, report_error
from .options import AsJson
from .output import print_json, replace_controls

if TYPE_CHECKING:
    from ptyctl.controller.policies import PolicyStore
    from ptyctl.daemon.client import RemoteController

app = typer.Typer(no_args_is_help=True, help="Check what the policy decides, test policy files, show or reload the policy.")

#: Exit codes of `check`; 0 means that the text would be typed. Its errors have 1, and 2 for the command line.
EXIT_ASK = 3
EXIT_DENY = 4
_EXIT_CODES = {"ask": EXIT_ASK, "deny": EXIT_DENY}
_WIDTH = 80


class _Where(StrEnum):
    PROMPT = "prompt"
    PROGRAM = "program"


@app.command()
def check(
    text: Annotated[list[str], typer.Argument(metavar="-- TEXT", help="What would be typed.")],
    device: Annotated[str | None, typer.Option(metavar="NAME", help="On this device of the inventory.")] = None,
    session: Annotated[str | None, typer.Option(metavar="SESSION", help="In this session.")] = None,
    platform: Annotated[str | None, typer.Option(metavar="NAME", help="On a device of this family; linux: in a shell.")] = None,
    mode: Annotated[str | None, typer.Option(metavar="NAME", help="In this mode. Default: where commands run.")] = None,
    where: Annotated[
        _Where | None, typer.Option(help="At the prompt, or in another program. Default: where the session is, or the prompt.")
    ] = None,
    kind: Annotated[Kind | None, typer.Option(help="Typed by an agent or a person. Default: you.")] = None,
    principal: Annotated[str | None, typer.Option(metavar="NAME", help="Typed by this principal. Default: you.")] = None,
    task: Annotated[str | None, typer.Option(metavar="NAME", help="Typed by this task.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what the policy decides about a text; nothing is typed.

    Exit code 0: it would be typed; 3: after an approval; 4: never; 1: there is no verdict.
    """
    fields = {
        "action": "check", "text": " ".join(text), "device": device, "platform": platform, "mode": mode,
        "where": where, "kind": kind, "principal": principal, "task_id": task,
    }  # fmt: skip

    async def in_session(controller: RemoteController) -> PolicyReply:
        session_id = await resolve_session(controller, session or "")
        return await controller.policy(PolicyRequest.of({**without_none(fields), "session_id": session_id}))

    try:
        if session is not None:
            reply, source = call_daemon(in_session), "the daemon's"
        else:
            reply, source = _answer(PolicyRequest.of(without_none(fields)))
    except SESSION_ERRORS as error:
        report_error(error)
        raise typer.Exit(EXIT_FAILED) from None
    if as_json:
        print_json(reply.payload())
    else:
        _print_fields(
            decision=reply.decision,
            reason=reply.reason,
            canonical=reply.canonical,
            place=f"{reply.platform or 'unknown family'}, mode {reply.mode or 'unknown'}, {reply.where}",
            **_policy_fields(reply, source),
        )
        _print_rules(reply.rule_details or ())
    raise typer.Exit(_EXIT_CODES.get(reply.decision or "", 0))


@app.command("test")
def run_examples(
    file: Annotated[str | None, typer.Argument(help="A policy file or a preset. Default: the policy of the settings.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check the examples of a policy and of those that it extends. Exit code 1 if one fails."""
    from ptyctl.api.errors import PtyctlError
    from ptyctl.policy.policy_file import PRESETS

    name = file if file is None or file in PRESETS else str(Path(file).absolute())
    try:
        name, number, faults = _store().run_examples(name)
    except PtyctlError as error:
        name, number, faults = name or "", 0, [error]
    if as_json:
        print_json({"policy": name, "examples": number, "failed": [fault.payload() for fault in faults]})
    else:
        for fault in faults:
            print_message(format_error(fault))
        if number or not faults:
            typer.echo(f"{replace_controls(name)}: {number} examples, {len(faults)} failed")
    raise typer.Exit(EXIT_FAILED if faults else 0)


@app.command()
def show(as_json: AsJson = False) -> None:
    """Print the policy that is in force: its rules with file and line, and the decisions where no rule decides."""
    reply, source = _answer(PolicyRequest(action="show"))
    if as_json:
        print_json(reply.payload())
        return
    _print_fields(**_policy_fields(reply, source), **(reply.defaults or {}))
    _print_rules(reply.rule_details or ())


@app.command()
def reload() -> None:
    """Load the daemon's policy again. If that fails, the policy that was in force remains in force."""
    if control.find_daemon(RuntimeDir()) is None:
        print_message("no daemon is running, and it loads the policy when it starts; check the files with: ptyctl policy test")
        raise typer.Exit(EXIT_NOT_FOUND)
    reply = call_daemon(lambda controller: controller.policy(PolicyRequest(action="reload")))
    typer.echo(f"loaded: {replace_controls(reply.policy)}, {len(reply.rules or ())} rules, SHA-256 {reply.sha256}")


def _answer(request: PolicyRequest) -> tuple[PolicyReply, str]:
    """Return the verdict of the daemon or, without a daemon, of the policy files; and the source of the policy."""
    runtime_dir = RuntimeDir()
    if runtime_dir.is_system or control.find_daemon(runtime_dir) is not None:
        return call_daemon(lambda controller: controller.policy(request)), "the daemon's"
    from ptyctl.controller.policy_checks import PolicyChecks
    from ptyctl.controller.settings import load_settings
    from ptyctl.inventory import Inventory
    from ptyctl.platforms import Platforms
    from ptyctl.session.clients import user

    settings = load_settings()
    checks = PolicyChecks(_store(), Inventory(settings.devices_file), Platforms(settings.platforms_dir))
    return asyncio.run(checks.answer(request, user())), "read now: no daemon is running"


def _store() -> PolicyStore:
    from ptyctl.controller.policies import PolicyStore
    from ptyctl.controller.settings import load_settings
    from ptyctl.platforms import Platforms

    settings = load_settings()
    return PolicyStore(settings, Platforms(settings.platforms_dir))


def _policy_fields(reply: PolicyReply, source: str) -> dict[str, str | None]:
    return {"policy": f"{reply.policy} ({source})", "sha256": reply.sha256, "problem": reply.problem}


def _print_fields(**fields: str | None) -> None:
    for name, value in fields.items():
        for part in (value or "").splitlines():
            _print_wrapped(f"{name:<12}{part}", indent=12)


def _print_rules(rules: Iterable[PolicyRule]) -> None:
    for rule in rules:
        place = rule.source if rule.line is None else f"{rule.source}:{rule.line}"
        _print_wrapped(f"{rule.decision:<6}{rule.id} ({place}): {rule.reason}", indent=6)


def _print_wrapped(text: str, indent: int) -> None:
    text, rest = replace_controls(text), " " * indent
    typer.echo(textwrap.fill(text, _WIDTH, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False))
