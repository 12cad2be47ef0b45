"""Concurrent sessions on many devices, which share a controller, as they mostly wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from ptyctl.api.controller import Controller
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from tests.integration.concurrent_cases import run_cases


async def run_concurrently(
    cases: Mapping[str, Callable[[Controller], Awaitable[None]]], settings: Settings | None = None
) -> None:
    """Run all cases on one controller. Raises the errors of the failed ones, each with the name of its case."""
    async with LocalController(settings) as controller:
        await run_cases({name: partial(case, controller) for name, case in cases.items()})
