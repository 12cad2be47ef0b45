"""A session whose line was lost and is being connected anew: what callers are told meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from ptyctl.api.errors import ErrorCode, PtyctlError


@dataclass(slots=True)
class Retry:
    """`at` is when the next try begins, on the loop's clock; None while one is under way. `why` the last one failed."""

    why: str
    at: float | None = None

    def next_try(self, now: float) -> str:
        """In words, for people."""
        when = "a try is under way" if self.at is None else f"the next try is in {self._wait_s(now):.0f} s"
        return f"reconnecting ({self.why}); {when}"

    def refusal(self, session_id: str, now: float) -> PtyctlError:
        """What a call that needs the line answers: it may be made again."""
        return PtyctlError(
            ErrorCode.CONNECT_FAILED,
            f"session {session_id} is {self.next_try(now)}: call again then, open it to try at once, or close it to stop that",
            {"state": "reconnecting", "retry_after_ms": round(self._wait_s(now) * 1000)},
        )

    def _wait_s(self, now: float) -> float:
        return 0.0 if self.at is None else max(self.at - now, 0.0)
