"""Concurrent sessions on many devices. Each is a separate test case, but they share a controller, as they mostly wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from ptyctl.api.controller import Controller
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings

_MAX_CONCURRENT = 12
Outcomes = Mapping[str, BaseException | None]


def run_concurrently(folder: Path, cases: Mapping[str, Callable[[Controller], Awaitable[None]]]) -> Outcomes:
    """Run all cases on one controller, in a new event loop, and return the error of each."""

    async def run() -> list[BaseException | None]:
        slots = asyncio.Semaphore(_MAX_CONCURRENT)

        async def run_case(case: Callable[[Controller], Awaitable[None]]) -> None:
            async with slots:
                await case(controller)

        async with LocalController(Settings(state_dir=folder / "state")) as controller:
            return await asyncio.gather(*map(run_case, cases.values()), return_exceptions=True)

    return dict(zip(cases, asyncio.run(run()), strict=True))


def raise_error(outcome: BaseException | None) -> None:
    if outcome is not None:
        raise outcome
