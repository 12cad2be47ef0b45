"""The time that a node may wait for its servers while it starts: one budget for all waits together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ptyctl.api.errors import ErrorCode, PtyctlError

from .buckets import RETRY_S

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

#: How long all waits of a start may take together (seconds): a cluster drops requests until it has a leader.
START_S = 60.0
#: Waits of at least this time are named in the error (seconds).
_NAMED_S = 1.0


class StartBudget:
    """The remaining time for the servers during a start. The time of the node's recovery does not count."""

    def __init__(self, total_s: float = START_S) -> None:
        self.rest_s = self._total_s = total_s
        self._waits: list[str] = []

    async def wait(self, what: str, attempt: Callable[[], Awaitable[T]], *, hint: str) -> T:
        """Return the result of an attempt, which is repeated after IO_ERROR while the budget lasts.

        Args:
            what: what the node waits for, for the error.

        Raises:
            PtyctlError: IO_ERROR if the budget is used up; the other errors of the attempt.
        """
        loop, why = asyncio.get_running_loop(), "no answer"
        began = loop.time()
        try:
            async with asyncio.timeout(self.rest_s):
                while True:
                    try:
                        return await attempt()
                    except PtyctlError as error:
                        if error.code is not ErrorCode.IO_ERROR:
                            raise
                        why = error.message
                        _LOG.warning("the node waits for its servers", extra={"for": what, "why": why})
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            earlier = f"; before it, {', '.join(self._waits)}" if self._waits else ""
            raise PtyctlError(
                ErrorCode.IO_ERROR,
                f"the node does not start: waiting for its servers took {self._total_s:.0f} s,"
                f" at last for {what}: {why}{earlier}",
                hint=hint,
            ) from None
        finally:
            took_s = loop.time() - began
            self.rest_s = max(0.0, self.rest_s - took_s)
            if took_s >= _NAMED_S:
                self._waits.append(f"{what} took {took_s:.0f} s")
