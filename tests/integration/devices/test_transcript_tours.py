"""Sessions on each transcript's device over Telnet, with output split at random places and delayed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
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
from tests.integration.devices.concurrent_runs import run_concurrently

PLATFORMS = Platforms()


@asynccontextmanager
async def logged_in(controller: Controller, name: str, seed: int = 0, **fields: Any) -> AsyncIterator[SessionHandle]:
    """Open a session on a transcript's device with the transcript's credentials."""
    transcript = load_transcript(name)
    auth = {
        "password": transcript.login.password,
        **({"enable_secret": transcript.enable_secret} if transcript.enable_secret else {}),
    }
    who = {"username": transcript.login.usernames[0]} if transcript.login.usernames else {}
    async with running_replay(name, seed) as address:
        where = {"protocol": "telnet", "host": address.host, "port": address.port, "platform": transcript.platform}
        async with await SessionHandle.open(controller, **{**where, **who, "auth": auth, **fields}) as handle:
            yield handle


class SessionTour:
    """Runs the steps of a transcript through a controller, as mode changes and saves where the platform has them."""

    def __init__(self, handle: SessionHandle, transcript: Transcript) -> None:
        self.handle = handle
        self.transcript = transcript
        self.platform: Platform = PLATFORMS.get(transcript.platform)
        self.posix = self.platform.posix_shell

    async def mode(self) -> str | None:
        return (await config(self.handle, "get")).mode

    def changes_mode(self, step: TourStep, source: str) -> bool:
        """Whether the step is the platform's mode change."""
        move = self.platform.modes[source].to.get(self.transcript.platform_mode(step.mode)) if step.mode is not None else None
        return move is not None and move.commands == (step.line,)

    def saves(self, step: TourStep, source: str) -> bool:
        return any(entry.commands == (step.line,) and source in (entry.modes or (source,)) for entry in self.platform.save)

    async def run(self, step: TourStep, source: str) -> None:
        """Run one step. `source` is the platform's mode before it."""
        if self.changes_mode(step, source) and not step.questions:
            assert step.mode is not None
            reply = await config(self.handle, "mode", mode=self.transcript.platform_mode(step.mode))
            assert self.posix or reply.mode == self.transcript.platform_mode(step.mode)
        elif self.saves(step, source):
            saved = await config(self.handle, "save")
            assert (saved.stdout or "").split() == step.output.split()
        else:
            self.assert_reply(step, await self.exec(step))

    async def exec(self, step: TourStep) -> ExecReply:
        responses = {"responses": [answer_to(question) for question in step.questions]} if step.questions else {}
        return await execute(self.handle, cmd=step.line, timeout_ms=PATIENCE_MS, max_output_bytes=100_000, **responses)

    def assert_reply(self, step: TourStep, reply: ExecReply) -> None:
        if self.posix:
            return
        assert step.mode is not None
        assert (reply.done_reason, reply.mode) == ("prompt", self.transcript.platform_mode(step.mode)), step.line
        if not step.questions:
            assert reply.stdout.split() == re.sub(r"\x1b\[[0-9;]*m", "", step.output).split()


def answer_to(question: Question) -> dict[str, object]:
    last_line = render(question.prompt.encode(), 1000).split("\n")[-1].strip()
    answer = question.first_answer + ("" if question.key else "\n")
    return {"match": re2.escape(last_line) + r"\s*$", "send": answer, "sensitive": question.hidden}


async def run_tour(controller: Controller, name: str, seed: int) -> None:
    """Run the whole tour: each reply has the right mode and the exact output."""
    transcript = load_transcript(name)
    async with logged_in(controller, name, seed) as handle:
        tour = SessionTour(handle, transcript)
        assert tour.posix or await tour.mode() in tour.platform.home
        for step in transcript.steps():
            source = transcript.platform_mode(step.source)
            if step.mode is None:
                with refused(ErrorCode.REMOTE_CLOSED):
                    await tour.exec(step)
                return
            if not tour.posix and tour.changes_mode(step, source) and await tour.mode() == transcript.platform_mode(step.mode):
                continue  # the login has changed to this mode already
            if not tour.posix and await tour.mode() != source:
                await config(handle, "mode", mode=source)
            await tour.run(step, source)


async def detect_platform(controller: Controller, name: str, seed: int) -> None:
    async with logged_in(controller, name, seed, platform="auto") as handle:
        assert handle.opened.platform == load_transcript(name).platform
        assert f"platform auto: {load_transcript(name).platform}, " in (handle.opened.message or "")
        assert "% sure (" in (handle.opened.message or "")


async def refuse_login(controller: Controller, name: str, seed: int) -> None:
    login = load_transcript(name).login
    with refused(ErrorCode.AUTH_FAILED, "check the credentials of the device") as caught:
        async with logged_in(controller, name, seed, auth={"password": "Wr0ng-entirely"}):
            pass
    asked = {prompt.split("\n")[-1].strip() for prompt in (login.password_prompt, login.username_prompt)}
    assert caught.value.details["prompt"] in asked
    assert "Wr0ng" not in caught.value.message


@pytest.mark.parametrize(
    ("scenario", "seed"),
    [(run_tour, 1), (run_tour, 2), (detect_platform, 3), (refuse_login, 4)],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_session_on_each_transcript_device(scenario: Callable[..., Awaitable[None]], seed: int) -> None:
    await run_concurrently({name: partial(scenario, name=name, seed=seed) for name in transcript_names()})
