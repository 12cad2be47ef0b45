"""Output that pauses where its last line looks like a prompt, cut at every byte, on a virtual clock."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from fixtures.virtual_clock import run_virtually
from ptyctl.api.exec import ExecRequest
from ptyctl.platforms import DeviceProfile, Platforms
from ptyctl.session.calls.exec import execute
from ptyctl.session.device.device_cli import DeviceCli
from ptyctl.session.device.exchange import OTHER_HOST_SETTLE_S
from ptyctl.session.device.prompt_wait import wait_for_prompt
from ptyctl.session.io.gate import SYSTEM
from ptyctl.session.io.prompt import Prompt, host_name
from ptyctl.session.io.terminal_state import SETTLE_S
from ptyctl.session.runs.prompt_strategy import UNSURE_S
from ptyctl.simulator.pager import PAGER_STYLES
from tests.session.device.scripted_device import PROMPT, Act, Device, at_prompt
from tests.session.scripted_session import run_command

PLATFORMS = Platforms()
FRR = PLATFORMS.get("frr")
#: Longer than a prompt of the known host must stay, shorter than one of another host.
PAUSE_S = OTHER_HOST_SETTLE_S / 2
ROUTES = b"Codes: K - kernel, S - static\r\n\r\nK>* 0.0.0.0/0 via 192.0.2.1\r\nS>* 10.0.0.0/8 [1/0]\r\nS# x\r\nB(config)# y\r\n"
LOG = b"2026/11/23 04:00:00 ZEBRA: [VTVCM-Y2NW3] Configuration Read\r\n"


@pytest.mark.parametrize("lines", [None, ["show ip route", "show ip route"]], ids=["cmd", "lines"])
def test_exec_with_a_pause_at_any_cut_returns_the_whole_output(tmp_path: Path, lines: list[str] | None) -> None:
    async def run(cut: int) -> None:
        acts: list[Act] = [ROUTES[:cut], PAUSE_S, ROUTES[cut:] + PROMPT]
        if lines is not None:
            acts += [len(lines[1]) + 1, lines[1].encode() + b"\r\n" + PROMPT]
        async with at_prompt(tmp_path / str(cut), Device(*acts)) as session:
            session.set_platform(FRR)
            request = ExecRequest.of({"session_id": "s", **({"cmd": "show ip route"} if lines is None else {"lines": lines})})
            reply = await execute(session, request, None)
            assert reply.done_reason == "prompt"
            text, typed = ROUTES.decode().replace("\r", ""), "R1# show ip route\n"
            assert reply.stdout == (text if lines is None else f"{typed}{text}{typed}"), cut

    for cut in range(len(ROUTES) + 1):
        run_virtually(run(cut))


def test_mode_change_with_a_pause_at_any_cut_reads_the_whole_output(tmp_path: Path) -> None:
    async def run(cut: int) -> None:
        device = Device(ROUTES[:cut], PAUSE_S, ROUTES[cut:] + PROMPT)
        async with at_prompt(tmp_path / str(cut), device) as session:
            session.set_platform(FRR)
            result = await DeviceCli(session.terminal, FRR).run("show ip route")
            assert [*result.lines, ""] == ROUTES.decode().replace("\r", "").split("\n"), cut

    for cut in range(len(ROUTES) + 1):
        run_virtually(run(cut))


@pytest.mark.parametrize("family", sorted(set(PAGER_STYLES) & set(PLATFORMS.names())))
def test_pager_with_a_long_pause_after_a_colon_is_no_question(tmp_path: Path, family: str) -> None:
    style = PAGER_STYLES[family]
    pager = style.prompt

    async def run(cut: int) -> None:
        rest = style.erase(24).encode() + b"two\r\n" + PROMPT
        device = Device(b"one\r\n" + pager[:cut].encode(), UNSURE_S + 1, pager[cut:].encode(), 1, rest)
        async with at_prompt(tmp_path / str(cut), device) as session:
            session.set_platform(PLATFORMS.get(family))
            session.prompt.learn(PROMPT.decode())
            reply = await run_command(session, "show running-config")
            assert (reply.stdout, reply.done_reason) == ("one\ntwo\n", "prompt"), pager[:cut]

    for cut in range(1, len(pager) + 1):
        if pager[cut - 1 : cut] in ":?" or cut in (len(pager) // 2, len(pager)):
            run_virtually(run(cut))


def test_look_alike_of_another_host_before_log_lines_gets_no_enter(tmp_path: Path) -> None:
    async def run(name: str, text: bytes) -> bytes:
        device = Device(text)
        async with at_prompt(tmp_path / name, device) as session:
            session.set_platform(FRR)
            assert (await run_command(session, "show ip route", timeout_ms=10_000)).done_reason == "timeout"
        return bytes(device.typed)

    async def run_own(name: str, text: bytes) -> bytes:
        device = Device(text)
        async with at_prompt(tmp_path / name, device) as session:
            session.set_platform(FRR)
            assert (await DeviceCli(session.terminal, FRR).run("show ip route", silence_s=5)).outcome == "silence"
        return bytes(device.typed)

    for number, text in enumerate((b"S>\r\n" + LOG, b"S>" + LOG)):
        assert run_virtually(run(f"exec{number}", text)) == run_virtually(run_own(f"own{number}", text)) == b""


def test_exec_with_a_short_pause_after_the_prompt_within_a_line_returns_the_whole_line(tmp_path: Path) -> None:
    async def run() -> str:
        async with at_prompt(tmp_path, Device(b"text R1# ", SETTLE_S - 0.05, b"y\r\n" + PROMPT)) as session:
            return (await run_command(session, "show history")).stdout

    assert run_virtually(run()) == "text R1# y\n"


@pytest.mark.parametrize(
    ("command", "prompt", "longest_s"),
    [
        ("hostname R2", b"R2# ", 0.2),
        ("configure terminal", b"R1(config)# ", 0.2),
        ("ssh R2", b"R2# ", 2.2),
    ],
)
def test_exec_that_changes_the_prompt_ends_in_time(tmp_path: Path, command: str, prompt: bytes, longest_s: float) -> None:
    async def run() -> None:
        async with at_prompt(tmp_path, Device(prompt)) as session:
            session.set_platform(FRR)
            begun = session.terminal.now()
            assert (await run_command(session, command)).done_reason == "prompt"
            assert session.terminal.now() - begun < longest_s
            assert session.prompt.learned == prompt.decode()

    run_virtually(run())


def test_wait_for_prompt_at_a_cut_line_waits_for_the_prompt(tmp_path: Path) -> None:
    async def run() -> None:
        channel = MemoryChannel(lambda data: b"")
        async with at_prompt(tmp_path, channel) as session:
            session.set_platform(FRR)
            channel.feed(b"\r\nS>")
            waiting = asyncio.create_task(wait_for_prompt(session.terminal, FRR.profile, session.terminal.now() + 30, SYSTEM))
            await asyncio.sleep(PAUSE_S)
            assert not waiting.done()
            channel.feed(b"* 10.0.0.0/8\r\n" + PROMPT)
            assert await waiting
            assert session.prompt.learned == PROMPT.decode()
            assert bytes(channel.written) == b""

    run_virtually(run())


HOSTS = {
    "R1": ["R1#", "R1(config)# ", "*R1> ", "12:00:01.5 R1#", "admin@R1> ", "root@R1:~# ", "[user@R1 ~]$ ", "R1:12>"],
    "HUAWEI": ["<HUAWEI>", "[~HUAWEI]", "[HUAWEI-aaa]", "[*HUAWEI-GigabitEthernet0/0/1]", "HUAWEI#"],
    "RP/0/RP0/CPU0:ios": ["RP/0/RP0/CPU0:ios#", "RP/0/RP0/CPU0:ios(config-if)#"],
    "PE1": ["*A:admin@PE1#", "A:admin@PE1#", "[admin@PE1] /ip/address>"],
    "A:PE1": ["A:PE1#", "*A:PE1>config>router# "],
    "sw1-a.example": ["sw1-a.example> ", "sw1-a.example(eth-1)# "],
    "db": ["db=# ", "db-# ", "db=*# "],
    "": ["", "> ", ">>> ", "... ", "/tmp # ", "~/src$ ", "(gdb) ", "[12] % ", "192.0.2.1:80> "],
}


@pytest.mark.parametrize(("host", "prompt"), [(host, prompt) for host, prompts in HOSTS.items() for prompt in prompts])
def test_host_name_of_a_prompt_is_found(host: str, prompt: str) -> None:
    assert host_name(prompt) == host


@pytest.mark.parametrize("learned", [prompt for prompts in HOSTS.values() for prompt in prompts if prompt])
def test_prompt_before_is_of_the_known_host(learned: str) -> None:
    prompt = Prompt()
    prompt.learn(learned)
    assert prompt.of_known_host(learned)
    assert prompt.of_known_host("S>") == (not host_name(learned))


def test_prompt_of_another_host_is_told_from_the_known_one() -> None:
    prompt, profile = Prompt(), DeviceProfile(prompt=FRR.profile.prompt, pagers=(), errors=())
    assert prompt.match("S>", profile) == "regex"
    prompt.learn("R1# ")
    assert [prompt.match(line, profile) for line in ("R1# ", "R1> ", "S>", "S>*")] == ["exact", "regex", "other_host", None]
