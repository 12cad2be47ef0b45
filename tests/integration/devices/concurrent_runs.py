"""Concurrent sessions on many devices, which share a controller, as they mostly wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from ptyctl.api.controller import Controller
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings

_MAX_CONCURRENT = 12


async def run_concurrently(
    cases: Mapping[str, Callable[[Controller], Awaitable[None]]], settings: Settings | None = None
) -> None:
    """Run all cases on one controller. Raises the errors of the failed ones, each with the name of its case."""
    slots = asyncio.Semaphore(_MAX_CONCURRENT)

    async def run_case(name: str) -> None:
        async with slots:
            try:
                await cases[name](controller)
            except Exception as error:
                error.add_note(f"case: {name}")
                raise

    async with LocalController(settings) as controller:
        outcomes = await asyncio.gather(*map(run_case, cases), return_exceptions=True)
    if failed := [outcome for outcome in outcomes if isinstance(outcome, BaseException)]:
        raise BaseExceptionGroup(f"{len(failed)} of {len(cases)} cases failed", failed)
