"""The errors of input that the policy does not allow."""

from __future__ import annotations

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.policy.rules import Verdict

#: Next steps for a line that cannot be read for certain.
WHOLE_COMMAND = "type the whole command in one write, without Tab, history or cursor keys"
WITHOUT_REPORT = "run the line as a command, or restart the shell: zsh does not report what its hooks put into the line"


def denied(verdict: Verdict, *, sensitive: bool) -> PtyctlError:
    """Return the error for a text that the policy denies."""
    rules = ", ".join(verdict.rules)
    return PtyctlError(
        ErrorCode.POLICY_DENIED,
        f"the policy denies this text{f' (rule {rules})' if rules else ''}: {verdict.reason}; it was not run",
        verdict_details(verdict, sensitive=sensitive),
        hint="do something else, or ask the person who writes the policy",
    )


def not_approvable(verdict: Verdict, text: str, hint: str, *, sensitive: bool) -> PtyctlError:
    """Return the error for a text that needs an approval, typed by a call that cannot wait for one."""
    message = f"{text!r} needs an approval: {verdict.reason}; nothing was typed"
    return PtyctlError(ErrorCode.POLICY_DENIED, message, verdict_details(verdict, sensitive=sensitive), hint=hint)


def secret_needs_approval(verdict: Verdict) -> PtyctlError:
    """Return the error for a secret that needs an approval: nobody may see it."""
    return PtyctlError(
        ErrorCode.POLICY_DENIED,
        f"this text needs an approval ({verdict.reason}), and a secret cannot be shown to an approver; it was not run",
        verdict_details(verdict, sensitive=True),
        hint="send it as ordinary text if it is not a secret",
    )


def place_changed(what: str) -> PtyctlError:
    """Return the error for a text that goes to another place, or is judged by another policy, than when its judgement began."""
    message = f"the prompt, the program or the policy has changed while {what} was judged; nothing was typed"
    return PtyctlError(ErrorCode.BUSY, message, {"reason": "place_changed"}, hint=NextStep.READ_STATE)


def policy_changed() -> PtyctlError:
    """Return the error for an edited text that was judged by a policy which is no longer in force."""
    message = "the policy has changed while the edited text was judged; the request waits as before"
    return PtyctlError(ErrorCode.BUSY, message, {"reason": "place_changed"}, hint="approve it again")


def too_long_at_once(limit: int) -> PtyctlError:
    """Return the error for an answer of more than `limit` bytes."""
    return PtyctlError(
        ErrorCode.POLICY_DENIED,
        f"the policy judges at most {limit} bytes of an answer that is typed at once; nothing was typed",
        {"decision": "deny", "rules": [], "reason": "too_long"},
        hint="wait for the question first, and then write the text",
    )


def unreadable(verdict: Verdict, hint: str) -> PtyctlError:
    """Return the error for a line that cannot be read for certain."""
    return PtyctlError(
        ErrorCode.POLICY_DENIED,
        "the typed line is not known for certain, and so cannot be judged; it was not run",
        {"decision": "ask", "rules": list(verdict.rules), "reason": "unreadable"},
        hint=hint,
    )


def verdict_details(verdict: Verdict, *, sensitive: bool) -> dict[str, object]:
    """Return a verdict as the details of an error; without the text if that is sensitive."""
    shown = {} if sensitive else {"canonical": verdict.canonical}
    return {"decision": str(verdict.decision), "rules": list(verdict.rules), "reason": verdict.reason, **shown}
