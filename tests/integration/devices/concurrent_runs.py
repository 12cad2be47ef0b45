"""Many devices at once, each with a test of its own: they wait far more than they work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from ptyctl.api.controller import Controller
from ptyctl.controller import LocalController
from ptyctl.controller.settings import Settings

_AT_ONCE = 12
Outcomes = Mapping[str, BaseException | None]


def together(folder: Path, works: Mapping[str, Callable[[Controller], Awaitable[None]]]) -> Outcomes:
    """Does all works on one controller, on a loop of its own; what went wrong with each."""

    async def run() -> list[BaseException | None]:
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(work: Callable[[Controller], Awaitable[None]]) -> None:
            async with turns:
                await work(controller)

        async with LocalController(Settings(state_dir=folder / "state")) as controller:
            return await asyncio.gather(*map(one, works.values()), return_exceptions=True)

    return dict(zip(works, asyncio.run(run()), strict=True))


def check(outcome: BaseException | None) -> None:
    if outcome is not None:
        raise outcome
