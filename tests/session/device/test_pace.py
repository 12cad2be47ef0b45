"""When the learned prompt ends a command: at once, or in the pace that the device itself has shown. On a virtual clock."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.virtual_clock import run_virtually
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.api.session import Expect
from ptyctl.platforms import Platforms
from ptyctl.session.calls.exec import execute
from ptyctl.session.calls.session_preparation import merged_expect
from ptyctl.session.device.exchange import OTHER_HOST_SETTLE_S, Pace
from ptyctl.session.io.terminal_state import SETTLE_S
from tests.session.device.scripted_device import PROMPT, Act, Device, at_prompt
from tests.session.scripted_session import read_from, run_command

PLATFORMS = Platforms()
#: Every family, and a session without one. The prompt of a POSIX shell is that of the shell, not of a device.
FAMILIES = [None, *(name for name in PLATFORMS.names() if not PLATFORMS.get(name).posix_shell)]
LOG = b"\r\n*Mar  1 00:00:00.155: %LINK-3-UPDOWN: Interface Gi1/0/7, changed state to up\r\n"
#: The log of commands of a switch: a line is the prompt alone, because an empty line was entered there.
RECORDED = (
    b"Log of the console:\r\nR1# show clock\r\n12:00:00.000 UTC\r\nR1# \r\nR1# write memory\r\nBuilding configuration...\r\n"
)


def answer_of(
    *acts: Act, family: str | None = "cisco_ios", given: Expect | None = None, cmd: str = "show log", **call: object
) -> ExecReply:
    """The reply to a command that the device answers with its echo and these acts."""

    async def run(folder: str) -> ExecReply:
        platform = None if family is None else PLATFORMS.get(family)
        expect = given or Expect()
        fields = {"expect": expect if platform is None else merged_expect(expect, platform)}
        async with at_prompt(Path(folder), Device(*acts), **fields) as session:
            if platform is not None:
                session.set_platform(platform)
            return await run_command(session, cmd, **call)

    with tempfile.TemporaryDirectory() as folder:
        return run_virtually(run(folder))


def paced(data: bytes, size: int, pause_s: float) -> Iterator[Act]:
    """Pieces of this size, with a pause before each but the first."""
    for begin in range(0, len(data), size):
        if begin:
            yield pause_s
        yield data[begin : begin + size]


def duration_s(acts: Iterable[Act]) -> float:
    return sum(act for act in acts if isinstance(act, float))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("acts", [(b"one\r\n" + PROMPT,), (PROMPT,), (0.07, b"one\r\n" + PROMPT), (0.07, PROMPT)])
def test_learned_prompt_ends_the_command_at_once_on_every_platform(family: str | None, acts: tuple[Act, ...]) -> None:
    reply = answer_of(*acts, family=family)
    assert (reply.done_reason, reply.stdout) == ("prompt", "one\n" if b"one" in bytes(acts[-1]) else "")  # type: ignore[arg-type]
    assert reply.duration_ms == pytest.approx(duration_s(acts) * 1000, abs=2)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("size", "pause_s"),
    [(1, 0.001), (1, 0.0167), (5, 0.4), *((size, pause_s) for size in (5, 16) for pause_s in (0.001, 0.05, 0.12))],
)
def test_prompt_in_the_recording_of_a_slow_line_does_not_end_the_command(family: str | None, pause_s: float, size: int) -> None:
    """Cut at every place: the pause also lies directly after the line that equals the prompt."""
    for shift in range(size):
        acts = [*paced(b"x" * shift + RECORDED + PROMPT, size, pause_s)]
        reply = answer_of(*acts, family=family)
        assert (reply.done_reason, reply.stdout) == ("prompt", "x" * shift + RECORDED.decode().replace("\r", ""))
        extra_s = reply.duration_ms / 1000 - duration_s(acts)
        assert extra_s <= 2 * pause_s + 0.005


@given(
    st.lists(st.sampled_from([PROMPT, b"R1# x", b"\r\n", b"\r\n", b"line", b" "]), max_size=12).map(b"".join),
    st.integers(1, 6),
    st.floats(0.001, SETTLE_S * 0.95),
    st.sampled_from(FAMILIES),
)
def test_output_with_even_pauses_is_complete(text: bytes, size: int, pause_s: float, family: str | None) -> None:
    """The device has shown its pace before: by the echo, or by two pieces of its output."""
    reply = answer_of(*paced(b"first line\r\n" + text + b"\r\n" + PROMPT, size, pause_s), family=family)
    assert reply.stdout == f"first line\n{text.decode()}\n".replace("\r", "")


def test_pause_before_the_output_is_the_device_at_work() -> None:
    reply = answer_of(0.09, b"one\r\ntwo\r\n" + PROMPT)
    assert reply.duration_ms == pytest.approx(90, abs=2)


@pytest.mark.parametrize("family", FAMILIES)
def test_log_line_after_the_prompt_belongs_to_the_next_read(tmp_path: Path, family: str | None) -> None:
    async def run() -> tuple[ExecReply, str, ExecReply, bytes]:
        platform = None if family is None else PLATFORMS.get(family)
        device = Device(b"one\r\n" + PROMPT, 0.05, LOG, 1, b"\r\n" + PROMPT, 9, b"show log\r\ntwo\r\n" + PROMPT)
        async with at_prompt(tmp_path, device, expect=Expect() if platform is None else platform.expect()) as session:
            if platform is not None:
                session.set_platform(platform)
            first = await run_command(session, "show log")
            await asyncio.sleep(0.1)
            later = await read_from(session.stream, cursor=first.next_cursor)
            return first, later.chunk or "", await run_command(session, "show log"), bytes(device.typed)

    first, later, second, typed = run_virtually(run())
    assert (first.stdout, first.duration_ms) == ("one\n", pytest.approx(0, abs=2))
    assert "%LINK-3-UPDOWN" in later
    assert (second.stdout, second.done_reason) == ("two\n", "prompt")
    assert typed.count(b"show log\r") == 1


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("settle_ms", [0, 1, 50, 100, 300])
@pytest.mark.parametrize("by", ["session", "call"])
def test_settle_time_of_a_caller_is_kept_on_every_platform(family: str | None, settle_ms: int, by: str) -> None:
    wanted = Expect(settle_ms=settle_ms)
    fields = {"given": wanted} if by == "session" else {"expect": wanted.model_dump(exclude_none=True)}
    pause_ms = settle_ms - 10 if settle_ms > 10 else 20
    reply = answer_of(b"one\r\n" + PROMPT, pause_ms / 1000, b"two\r\n" + PROMPT, family=family, **fields)  # type: ignore[arg-type]
    assert reply.stdout == ("one\nR1# two\n" if settle_ms > 10 else "one\n")
    assert reply.duration_ms == pytest.approx(pause_ms + settle_ms if settle_ms > 10 else settle_ms, abs=3)


@pytest.mark.parametrize("family", ["cisco_ios", "arista_eos", "generic", None])
def test_prompt_known_by_its_pattern_alone_settles(family: str | None) -> None:
    reply = answer_of(b"R1(config)# ", family=family, cmd="configure")
    assert (reply.done_reason, reply.duration_ms) == ("prompt", pytest.approx(SETTLE_S * 1000, abs=3))


def test_forty_lines_with_output_end_at_once(tmp_path: Path) -> None:
    async def run() -> ExecReply:
        acts: list[Act] = [b"said\r\n" + PROMPT]
        for _ in range(39):
            acts += [4, b"one\r\nsaid\r\n" + PROMPT]
        async with at_prompt(tmp_path, Device(*acts)) as session:
            session.set_platform(PLATFORMS.get("cisco_ios"))
            return await execute(session, ExecRequest.of({"session_id": "s", "lines": ["one"] * 40}), None)

    reply = run_virtually(run())
    assert (reply.done_reason, reply.stdout.count("said\n")) == ("prompt", 40)
    assert reply.duration_ms < 20


@given(st.lists(st.floats(0.0, 5.0), max_size=8))
def test_stay_outlasts_each_repeated_silence_and_is_bounded(silences: list[float]) -> None:
    pace, now = Pace(), 0.0
    pace.received(now)
    for silence in silences:
        now += silence
        pace.received(now)
    told = sorted(silence for silence in silences if silence < OTHER_HOST_SETTLE_S / 2 - 1e-9)
    if len(told) > 1:
        assert pace.stay_s >= 2 * told[-2] - 1e-6
    assert pace.stay_s <= OTHER_HOST_SETTLE_S
    assert pace.stay_s > 0 or not [silence for silence in told if 1e-9 < silence < SETTLE_S] or max(told) >= SETTLE_S
