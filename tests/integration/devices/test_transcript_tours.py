"""Each family's transcript from the login to its end, over Telnet, cut at random places and with random delays."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import re2

from fixtures.servers.replay import running_replay
from fixtures.transcripts.transcript import Question, TourStep, Transcript, load_transcript, transcript_names
from ptyctl.api import ErrorCode, ExecReply
from ptyctl.api.controller import Controller
from ptyctl.api.handle import SessionHandle
from ptyctl.core.renderer import render
from ptyctl.platforms import Platform, Platforms
from tests.controller.session_calls import PATIENCE_MS, config, execute, refused
from tests.integration.devices.concurrent_runs import Outcomes, check, together

PLATFORMS = Platforms()


def known_as(told: Transcript, mode: str) -> str:
    """A transcript's mode in the words of its platform."""
    return told.modes[mode].platform_mode or mode


@asynccontextmanager
async def logged_in(controller: Controller, name: str, seed: int = 0, **fields: Any) -> AsyncIterator[SessionHandle]:
    """A session on a transcript's device, logged in with what the transcript wants."""
    told = load_transcript(name)
    auth = {"password": told.login.password, **({"enable_secret": told.enable_secret} if told.enable_secret else {})}
    who = {"username": told.login.usernames[0]} if told.login.usernames else {}
    async with running_replay(name, seed) as address:
        where = {"protocol": "telnet", "host": address.host, "port": address.port, "platform": told.platform}
        async with await SessionHandle.open(controller, **{**where, **who, "auth": auth, **fields}) as handle:
            yield handle


class Tour:
    """Takes the steps of a transcript through a controller: by modes and saving where the platform knows how."""

    def __init__(self, handle: SessionHandle, told: Transcript) -> None:
        self.handle = handle
        self.told = told
        self.platform: Platform = PLATFORMS.get(told.platform)
        self.posix = self.platform.posix_shell

    async def mode(self) -> str | None:
        return (await config(self.handle, "get")).mode

    def moves(self, step: TourStep, source: str) -> bool:
        """Whether it is the platform's own way into another mode."""
        move = self.platform.modes[source].to.get(known_as(self.told, step.mode)) if step.mode is not None else None
        return move is not None and move.commands == (step.line,)

    def saves(self, step: TourStep, source: str) -> bool:
        return any(entry.commands == (step.line,) and source in (entry.modes or (source,)) for entry in self.platform.save)

    async def run(self, step: TourStep, source: str) -> None:
        """One step from a mode, which is that of the platform."""
        if self.moves(step, source) and not step.questions:
            assert step.mode is not None
            reply = await config(self.handle, "mode", mode=known_as(self.told, step.mode))
            assert self.posix or reply.mode == known_as(self.told, step.mode)
        elif self.saves(step, source):
            saved = await config(self.handle, "save")
            assert (saved.stdout or "").split() == step.output.split()
        else:
            self.check(step, await self.exec(step))

    async def exec(self, step: TourStep) -> ExecReply:
        responses = {"responses": [answer_to(question) for question in step.questions]} if step.questions else {}
        return await execute(self.handle, cmd=step.line, timeout_ms=PATIENCE_MS, max_output_bytes=100_000, **responses)

    def check(self, step: TourStep, reply: ExecReply) -> None:
        if self.posix:
            return
        assert step.mode is not None
        assert (reply.done_reason, reply.mode) == ("prompt", known_as(self.told, step.mode)), step.line
        if not step.questions:
            assert reply.stdout.split() == re.sub(r"\x1b\[[0-9;]*m", "", step.output).split()


def answer_to(question: Question) -> dict[str, object]:
    last_line = render(question.prompt.encode(), 1000).split("\n")[-1].strip()
    answer = question.first_answer + ("" if question.key else "\n")
    return {"match": re2.escape(last_line) + r"\s*$", "send": answer, "sensitive": question.hidden}


def with_sources(told: Transcript) -> Iterator[tuple[str, TourStep]]:
    mode = told.start
    for step in told.steps():
        yield known_as(told, mode), step
        mode = step.mode or mode


async def take(controller: Controller, name: str, seed: int) -> None:
    """Login, modes, commands, errors, saving and the exit: every reply names the mode, and the output is the device's own."""
    told = load_transcript(name)
    async with logged_in(controller, name, seed) as handle:
        tour = Tour(handle, told)
        assert tour.posix or await tour.mode() in tour.platform.home
        for source, step in with_sources(told):
            if step.mode is None:
                with refused(ErrorCode.REMOTE_CLOSED):
                    await tour.exec(step)
                return
            if not tour.posix and tour.moves(step, source) and await tour.mode() == known_as(told, step.mode):
                continue  # the login went there already
            if not tour.posix and await tour.mode() != source:
                await config(handle, "mode", mode=source)
            await tour.run(step, source)


async def find_family(controller: Controller, name: str, seed: int) -> None:
    async with logged_in(controller, name, seed, platform="auto") as handle:
        assert handle.opened.platform == load_transcript(name).platform
        assert f"platform auto: {load_transcript(name).platform}, " in (handle.opened.message or "")
        assert "% sure (" in (handle.opened.message or "")


async def be_refused(controller: Controller, name: str, seed: int) -> None:
    login = load_transcript(name).login
    with refused(ErrorCode.AUTH_FAILED, "check the credentials of the device") as caught:
        async with logged_in(controller, name, seed, auth={"password": "Wr0ng-entirely"}):
            pass
    asked = {prompt.split("\n")[-1].strip() for prompt in (login.password_prompt, login.username_prompt)}
    assert caught.value.details["prompt"] in asked
    assert "Wr0ng" not in caught.value.message


WORKS = {"tour": take, "family": find_family, "wrong password": be_refused}
SEEDS = {"tour": (1, 2), "family": (3,), "wrong password": (4,)}
CASES = [f"{work} of {name}, cut by {seed}" for work in WORKS for name in transcript_names() for seed in SEEDS[work]]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    works = [
        partial(WORKS[work], name=name, seed=seed) for work in WORKS for name in transcript_names() for seed in SEEDS[work]
    ]
    return together(tmp_path_factory.mktemp("tours"), dict(zip(CASES, works, strict=True)))


@pytest.mark.parametrize("case", CASES)
def test_a_transcript(outcomes: Outcomes, case: str) -> None:
    check(outcomes[case])
