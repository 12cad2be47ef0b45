"""Rows exec-policy-* and key-policy-*: the cost of the policies `guarded` and `readonly`, compared with `off`."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from .exec_shells import ANSWER, BASH, COMMAND
from .measurement import OURS, Candidate, Plan, Result, TimedCall, in_milliseconds, measure, timed
from .sessions import opened_session
from .table import Aim, Row

OFF = "off"
#: Keys in one measured call. Ctrl-U then empties the line.
KEYS = 200
_MICROSECONDS = 1e6


@asynccontextmanager
async def _session(policy: str) -> AsyncIterator[object]:
    os.environ["PTYCTL_POLICY"] = policy
    async with opened_session(protocol="local", command=BASH) as session:
        assert (await session.exec(COMMAND)).exit_code == 0
        yield session


@asynccontextmanager
async def _exec(policy: str) -> AsyncIterator[TimedCall]:
    async with _session(policy) as session:

        async def call() -> str:
            return str((await session.exec(COMMAND)).stdout)  # type: ignore[attr-defined]

        yield timed(call, ANSWER)


@asynccontextmanager
async def _keys(policy: str) -> AsyncIterator[TimedCall]:
    async with _session(policy) as session:

        async def once() -> float:
            start = time.process_time()
            for _ in range(KEYS):
                await session.write("x")  # type: ignore[attr-defined]
            seconds = time.process_time() - start
            await session.key("ctrl_u")  # type: ignore[attr-defined]
            return seconds / KEYS

        yield once


async def _exec_run(policy: str, plan: Plan) -> Result:
    return in_milliseconds(await measure([Candidate(OURS, lambda: _exec(policy)), Candidate(OFF, lambda: _exec(OFF))], plan))


async def _keys_run(policy: str, plan: Plan) -> Result:
    """Return the extra cost of a key under a policy, in microseconds of processor time."""
    result = await measure([Candidate(OURS, lambda: _keys(policy)), Candidate(OFF, lambda: _keys(OFF))], plan)
    off = result.rounds[OFF]
    added = [ours - other for ours, other in zip(result.rounds[OURS], off, strict=True)]
    return Result({OURS: added, OFF: off}).each(lambda seconds: seconds * _MICROSECONDS)


def _rows(policy: str) -> tuple[Row, Row]:
    exec_work, key_work = f"exec `{COMMAND}` with the policy `{policy}`", f"what a key costs more with the policy `{policy}`"
    return (
        Row(f"exec-policy-{policy}", exec_work, "ms", OFF, (Aim("≤", 1.05, OFF),), partial(_exec_run, policy)),
        Row(f"key-policy-{policy}", key_work, "us", OFF, (Aim("≤", 20),), partial(_keys_run, policy)),
    )


ROWS = (*_rows("guarded"), *_rows("readonly"))
