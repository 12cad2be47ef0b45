"""Transcripts: completeness, agreement with the platform files, and the replay server."""

from __future__ import annotations

import asyncio
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.receiver import RecordingReceiver
from fixtures.servers.replay import running_replay, split_randomly
from fixtures.transcripts.device import TranscriptDevice
from fixtures.transcripts.tour import DeviceTour, output_of
from fixtures.transcripts.transcript import load_transcript, transcript_names
from ptyctl.platforms import Detection, Platforms
from ptyctl.simulator.pager import PAGER_STYLES
from ptyctl.simulator.telnet_server import TelnetCodec
from ptyctl.simulator.terminal import CloseConnection
from transports.channel import Pty
from transports.telnet import TelnetChannel, TelnetConnectOptions

PLATFORMS = Platforms().all()
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def shown(text: str) -> list[str]:
    """Return the lines of a text, without escape sequences."""
    return _SEQUENCE.sub("", text.replace("{rows}", "24")).split("\n")


def test_each_family_has_transcript() -> None:
    assert {load_transcript(name).platform for name in transcript_names()} == set(PLATFORMS) - {"generic"}


@pytest.mark.parametrize("name", transcript_names())
class TestTours:
    def test_tour_ends_with_closed_connection(self, name: str) -> None:
        transcript = load_transcript(name)
        assert [step.mode for step in transcript.steps()][-1] is None
        assert DeviceTour(transcript).run_all().device.closed

    def test_tour_has_mode_change_long_output_and_error(self, name: str) -> None:
        transcript = load_transcript(name)
        steps = list(transcript.steps())
        assert {step.mode for step in steps} - {None, transcript.start}
        assert max(step.output.count("\n") for step in steps) > 24
        assert any(transcript.modes[step.source].command(step.line) is None for step in steps)

    def test_tour_output_equals_transcript(self, name: str) -> None:
        tour = DeviceTour(load_transcript(name))
        tour.log_in()
        for step in tour.transcript.steps():
            text = _pager_prompts(tour.transcript.pager).sub("", tour.run(step))
            end = "" if step.mode is None else tour.device.prompt
            assert text.replace("\r\n", "\n").endswith(step.output + end.replace("\r\n", "\n"))

    def test_pager_stops_until_turned_off(self, name: str) -> None:
        transcript = load_transcript(name)
        tour = DeviceTour(transcript)
        tour.log_in()
        pages: dict[bool, list[int]] = {True: [], False: []}
        for step in transcript.steps():
            is_on = tour.device.length > 0
            pages[is_on].append(len(_pager_prompts(transcript.pager).findall(tour.run(step))))
        assert any(pages[True]) is (transcript.pager is not None)
        assert not any(pages[False])

    def test_secrets_are_not_echoed(self, name: str) -> None:
        transcript = load_transcript(name)
        text = DeviceTour(transcript).run_all().text
        assert transcript.login.password not in text
        assert transcript.enable_secret is None or transcript.enable_secret not in text

    def test_three_wrong_passwords_close_connection(self, name: str) -> None:
        login = load_transcript(name).login
        tour = DeviceTour(load_transcript(name))
        tour.answer(login.before)
        for _ in range(3):
            assert not tour.device.closed
            text = tour.type(f"{login.usernames[0]}\r" if login.usernames else "") + tour.type("wrong\r")
            assert login.refusal.replace("\n", "\r\n") in text
        assert tour.device.closed

    def test_prompts_and_errors_match_platform(self, name: str) -> None:
        """Prompts are recognised with their modes, and errors as errors."""
        transcript, platform = load_transcript(name), PLATFORMS[load_transcript(name).platform]
        profile, errors = platform.profile, (*platform.errors.exec, *platform.errors.config)
        for mode_name, mode in transcript.modes.items():
            found = profile.shown_prompt(shown(mode.prompt))
            assert found is not None, mode_name
            assert found.mode == (mode.platform_mode or mode_name)
            answer = mode.error_for("show zzz")
            assert any(pattern.matches(line) for pattern in errors for line in shown(answer)), answer

    def test_pager_prompt_matches_platform(self, name: str) -> None:
        transcript = load_transcript(name)
        if transcript.pager is not None:
            (line,) = shown(PAGER_STYLES[transcript.pager].prompt.replace("\0", ""))
            assert any(pager.pattern.matches(line) for pager in PLATFORMS[transcript.platform].pagers)

    def test_commands_of_platform_exist_in_transcript(self, name: str) -> None:
        """Paging off, save, exit and mode changes, for the modes of the transcript."""
        transcript, platform = load_transcript(name), PLATFORMS[load_transcript(name).platform]
        modes = {mode.platform_mode or mode_name for mode_name, mode in transcript.modes.items()}
        moves = [(source, move.commands) for source in modes for to, move in platform.modes[source].to.items() if to in modes]
        typed = [
            (procedure.modes, procedure.commands)
            for procedure in (*platform.terminal.paging_off, *platform.save, *platform.exit)
        ]
        lines = {command.line for mode in transcript.modes.values() for command in mode.commands}
        for sources, commands in (*typed, *(((source,), commands) for source, commands in moves)):
            if not sources or modes.intersection(sources):
                assert set(commands) <= lines

    def test_platform_is_detected(self, name: str) -> None:
        transcript = load_transcript(name)
        detection, command = Detection(PLATFORMS), PLATFORMS[transcript.platform].detect.command
        detection.banner(transcript.login.greeting + transcript.login.welcome)
        start = transcript.modes[transcript.start]
        detection.prompt(shown(start.prompt))
        outputs = {step.line: step.output for step in transcript.steps()}
        assert command is not None
        detection.output(command, _SEQUENCE.sub("", outputs[command]))
        assert (detection.result().family, detection.result().sure) == (transcript.platform, True)

    @pytest.mark.parametrize("seed", [1, 2])
    async def test_replay_is_complete_however_it_is_split(self, name: str, seed: int) -> None:
        tour = DeviceTour(load_transcript(name)).run_all()
        async with running_replay(name, seed, max_delay_s=0.0005) as address:
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(tour.keys.encode())
            received = await reader.read()
            writer.close()
        assert received == TelnetCodec.greeting() + TelnetCodec.encode(tour.text.encode())

    async def test_telnet_channel_receives_whole_tour(self, name: str) -> None:
        tour, receiver = DeviceTour(load_transcript(name)).run_all(), RecordingReceiver()
        async with running_replay(name, seed=3, max_delay_s=0.0005) as address:
            channel = TelnetChannel(TelnetConnectOptions(address.host, address.port), Pty(80, 24))
            await channel.open(receiver)
            channel.write(tour.keys.encode())
            # NUL has no effect on a network virtual terminal (RFC 854).
            assert (await receiver.receive_all()).decode() == tour.text.replace("\0", "")
            await channel.close(force=True)


def _pager_prompts(pager: str | None) -> re.Pattern[str]:
    """Return a pattern for each pager prompt with its eraser."""
    if pager is None:
        return re.compile("(?!)")
    prompt = re.escape(PAGER_STYLES[pager].text).replace(re.escape("{percent}"), r"\d+")
    return re.compile(prompt + re.escape(PAGER_STYLES[pager].erase(24)))


@given(st.binary(max_size=400), st.integers(0, 99))
def test_split_pieces_are_complete_and_reproducible(data: bytes, seed: int) -> None:
    first, second = (list(split_randomly(data, random.Random(seed), 0.01)) for _ in range(2))
    assert first == second
    assert b"".join(piece for piece, _ in first) == data
    assert all(piece for piece, _ in first)
    assert all(0 <= seconds <= 0.01 for _, seconds in first)


@given(st.sampled_from(transcript_names()), st.binary(max_size=200), st.integers(0, 200))
def test_device_output_does_not_depend_on_splits(name: str, noise: bytes, cut: int) -> None:
    texts = []
    for parts in ((noise,), (noise[:cut], noise[cut:])):
        device = TranscriptDevice(load_transcript(name))
        actions = device.start()
        for part in parts:
            actions += device.feed(part)
        texts.append(b"".join(getattr(action, "data", b"") for action in actions))
    assert texts[0] == texts[1]


class TestDevice:
    def test_window_size_sets_page_size(self) -> None:
        tour = DeviceTour(load_transcript("arista_eos"))
        tour.device.resize(120, 40)
        tour.log_in()
        tour.type("enable\renable-arista_eos\r")
        assert tour.type("show interfaces status\r").count("\n") == 40

    def test_wrong_answer_ends_command(self) -> None:
        tour = DeviceTour(load_transcript("cisco_ios"))
        tour.log_in()
        assert tour.type("enable\rwrong\r").endswith("% Access denied\r\n\r\nedge-sw1>")

    def test_repainting_family_repaints_line_on_each_key(self) -> None:
        tour = DeviceTour(load_transcript("mikrotik_routeros"))
        tour.log_in()
        assert tour.type("/i") == "\r[admin@branch 7] > /\x1b[K\r[admin@branch 7] > /i\x1b[K"

    def test_logout_closes_connection_and_ignores_input(self) -> None:
        tour = DeviceTour(load_transcript("linux"))
        tour.log_in()
        actions = tour.device.feed(b"exit\rid\r")
        assert actions[-1] == CloseConnection()
        assert "uid" not in output_of(actions)


async def test_open_connection_does_not_block_replay_shutdown() -> None:
    async with running_replay("cisco_ios") as address:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        await reader.readuntil(b"Username: ")
    assert await reader.read() == b""
    writer.close()
