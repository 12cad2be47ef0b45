"""exec on each paged transcript: pages are requested with the platform's key, and the output is exact."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import re2

from fixtures.servers.replay import running_replay
from fixtures.transcripts.transcript import Question, TourStep, Transcript, load_transcript, transcript_names
from ptyctl.api.controller import Controller
from ptyctl.api.handle import SessionHandle
from ptyctl.core.renderer import render
from tests.controller.session_calls import PATIENCE_MS, execute, read, write
from tests.integration.devices.concurrent_runs import run_concurrently
from tests.integration.devices.test_transcript_tours import answer_to

PAGED = [name for name in transcript_names() if load_transcript(name).pager is not None]
ROWS = 24


@asynccontextmanager
async def logged_in(controller: Controller, name: str, seed: int) -> AsyncIterator[SessionHandle]:
    """Open a session on a transcript's device and log in by writes, so that paging stays on."""
    transcript = load_transcript(name)
    async with running_replay(name, seed) as address:
        where: dict[str, Any] = {"protocol": "telnet", "host": address.host, "port": address.port}
        async with await SessionHandle.open(
            controller, **where, platform=transcript.platform, pty={"cols": 80, "rows": ROWS}
        ) as handle:
            cursor = "0"
            for question in questions(transcript):
                cursor = await answered(handle, cursor, question)
            await seen(handle, cursor, transcript.modes[transcript.start].prompt)
            yield handle


def questions(transcript: Transcript) -> list[Question]:
    login = transcript.login
    username = [Question(prompt=login.username_prompt, answers=login.usernames[:1])] if login.usernames else []
    return [*login.before, *username, Question(prompt=login.password_prompt, answers=(login.password,)), *login.after]


async def seen(handle: SessionHandle, cursor: str, prompt: str) -> None:
    last = render(prompt.replace("{rows}", str(ROWS)).encode(), 1000).strip("\n").split("\n")[-1].strip()
    found = await read(handle, cursor=cursor, until_regex=re2.escape(last) + r"\s*$", timeout_ms=PATIENCE_MS)
    assert found.matched, (last, found.chunk)


async def answered(handle: SessionHandle, cursor: str, question: Question) -> str:
    await seen(handle, cursor, question.prompt)
    reply = await write(handle, data=question.first_answer + ("" if question.key else "\n"))
    return reply.next_cursor or ""


def printed(transcript: Transcript, step: TourStep) -> str:
    """Return the output of the step. An empty line above a two-line prompt counts as part of the prompt."""
    assert step.mode is not None
    text = render(step.output.replace("\n", "\r\n").encode(), 80)
    two_lines = "\n" in transcript.modes[step.mode].prompt.strip("\n")
    return text[:-1] if two_lines and f"\n{text}".endswith("\n\n") else text


async def execute_tour(controller: Controller, name: str, seed: int) -> None:
    transcript, pages = load_transcript(name), 0
    async with logged_in(controller, name, seed) as handle:
        for step in transcript.steps():
            if step.mode is None:
                break
            asked = {"responses": [answer_to(question) for question in step.questions]} if step.questions else {}
            reply = await execute(handle, cmd=step.line, timeout_ms=PATIENCE_MS, max_output_bytes=1_000_000, **asked)
            assert reply.done_reason == "prompt"
            pages += reply.pages or 0
            if not step.questions:
                assert reply.stdout == printed(transcript, step), step.line
    assert pages


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_exec_on_each_paged_device_returns_exact_output(seed: int) -> None:
    await run_concurrently({name: partial(execute_tour, name=name, seed=seed) for name in PAGED})
