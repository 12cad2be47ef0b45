"""Applies the policy to an open: to its program, and to variables whose text a shell would run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.session import SessionRequest
from ptyctl.core.shells import is_plain_shell
from ptyctl.policy.rules import SHELL_PLATFORM, UNKNOWN_PLATFORM, Decision, DecisionRequest, strictest
from ptyctl.policy.shell_command import changes_programs, text_run_from
from ptyctl.session.clients import current_principal
from ptyctl.session.judgement import PolicyDecisionPoint
from ptyctl.session.verdict_thread import judge_outside_loop

from .destinations import Destination

#: Most characters of the command and the environment of an open: as of a command that is typed.
MAX_PROGRAM_TEXT = 128 * 1024


async def check_program(policy: PolicyDecisionPoint, request: SessionRequest, destination: Destination) -> str | None:
    """Judge the program of an open request as if it were typed into a shell. Return a warning, or None.

    What the inventory adds to the request is not judged. A program that needs an approval is refused: before the
    session exists, there is no screen to show to an approver.

    Raises:
        PtyctlError: POLICY_DENIED; LIMIT_EXCEEDED if the texts are too long; as `judge_in_thread` for a long one.
    """
    size = _size(request)
    if size > MAX_PROGRAM_TEXT:
        raise PtyctlError(
            ErrorCode.LIMIT_EXCEEDED,
            f"the command and the environment of a session have at most {MAX_PROGRAM_TEXT} characters, and these have {size}",
            {"limit": "max_program_text", "max_program_text": MAX_PROGRAM_TEXT},
            hint="put the text into a file",
        )
    return await judge_outside_loop(partial(_check, policy, request, destination), size)


def _size(request: SessionRequest) -> int:
    """Return the number of characters in the command and the environment of a request."""
    command, env = request.command or (), request.env or {}
    words = len(command) if isinstance(command, str) else sum(len(word) + 1 for word in command)
    return words + sum(len(name) + len(value) + 1 for name, value in env.items())


def _check(policy: PolicyDecisionPoint, request: SessionRequest, destination: Destination) -> str | None:
    """Judge the program of a request; runs in any thread. Raises PtyctlError POLICY_DENIED."""
    texts = list(_texts(request))
    if not texts:
        return None
    by = current_principal()
    protocol, platform = destination.request.protocol, destination.request.platform
    if protocol == "local":
        platforms: tuple[str, ...] = (SHELL_PLATFORM,)
    else:
        platforms = (platform,) if platform else (SHELL_PLATFORM, UNKNOWN_PLATFORM)
    verdicts = [
        policy.verdict(
            DecisionRequest(text, name, protocol, destination.device, kind=by.kind, principal=by.name, task=request.task_id)
        )
        for text in texts
        for name in platforms
    ]
    decision = strictest(verdict.decision for verdict in verdicts)
    worst = next(verdict for verdict in verdicts if verdict.decision is decision)
    if decision is Decision.ALLOW:
        return None
    if decision is Decision.WARN:
        return f"policy warning for the program of this session: {worst.reason}"
    needs = "denies" if decision is Decision.DENY else "asks for an approval of"
    rules = f" (rule {', '.join(worst.rules)})" if worst.rules else ""
    raise PtyctlError(
        ErrorCode.POLICY_DENIED,
        f"the policy {needs} the program of this session{rules}: {worst.reason}; it was not started",
        {
            "decision": str(decision),
            "rules": list(worst.rules),
            "reason": worst.reason,
            "canonical": worst.canonical,
            "field": "command" if request.command is not None else "env",
        },
        hint="open a shell, and run the command there, where a person can approve it",
    )


def _texts(request: SessionRequest) -> Iterator[str]:
    """Yield the texts that the request makes a shell run."""
    env = request.env or {}
    for name, value in env.items():
        if (text := text_run_from(name, value)) and text.strip():
            yield text
    # The text of a variable whose name is not a valid shell name may be run as a function, like that of BASH_ENV.
    changing = {name if name.isidentifier() else "BASH_ENV": value for name, value in env.items() if changes_programs(name)}
    assigned = [f"{name}={shlex.quote(value)}" for name, value in changing.items()]
    command = request.command or ()
    line = command if isinstance(command, str) else shlex.join(command)
    if not line or _is_plain_shell(line):
        line = "sh" if assigned else ""
    if line:
        yield " ".join((*assigned, line))


def _is_plain_shell(line: str) -> bool:
    try:
        return is_plain_shell(shlex.split(line))
    except ValueError:  # unbalanced quotes
        return False
