"""Cases of one test that mostly wait, and run concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

_MAX_CONCURRENT = 12


async def run_cases(cases: Mapping[str, Callable[[], Awaitable[None]]], at_once: int = _MAX_CONCURRENT) -> None:
    """Run all cases, at most `at_once` of them concurrently. Raises the errors of the failed ones, each with its name."""
    slots = asyncio.Semaphore(at_once)

    async def run_case(name: str) -> None:
        async with slots:
            try:
                await cases[name]()
            except Exception as error:
                error.add_note(f"case: {name}")
                raise

    outcomes = await asyncio.gather(*map(run_case, cases), return_exceptions=True)
    if failed := [outcome for outcome in outcomes if isinstance(outcome, BaseException)]:
        raise BaseExceptionGroup(f"{len(failed)} of {len(cases)} cases failed", failed)
