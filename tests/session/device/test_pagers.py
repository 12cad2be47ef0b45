"""Pagers of any wording are answered or reported as a question: no command ends with its first page. On a virtual clock."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unicodedata import east_asian_width

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from fixtures.memory_channel import MemoryChannel
from fixtures.virtual_clock import run_virtually
from ptyctl.api.exec import ExecReply
from ptyctl.api.session import Expect
from ptyctl.platforms import Platforms
from ptyctl.session.calls.exec import execute
from ptyctl.session.calls.session_preparation import merged_expect
from ptyctl.session.device.device_cli import DeviceCli
from ptyctl.session.io.prompt import host_name
from ptyctl.session.runs.prompt_strategy import UNFINISHED_S
from tests.session.device.scripted_device import Act, Device, again_for, at_prompt
from tests.session.scripted_session import run_command, write_to

PLATFORMS = Platforms()
#: Pagers whose line names the key for the next page. They are answered on every platform.
NAMED = {
    "SG": "More: <space>,  Quit: q or CTRL+Z, One line: <return> ",
    "SG, spaced": "More: <space>, Quit: q, One line: <return>",
    "OmniSwitch AOS 6": "More? [next screen <sp>, next line <cr>, filter pattern </>, quit </>]",
    "FASTPATH": "--More-- or (q)uit",
    "AireOS": "--More-- or (q)uit ",
    "SmartAX": "---- More ( Press 'Q' to break ) ----",
    "D-Link": "CTRL+C ESC q Quit SPACE n Next Page ENTER Next Entry a All",
    "D-Link, short": "CTRL+C ESC q Quit SPACE n Next Page p Previous Page r Refresh",
    "Nokia ISAM": "--More-- (Press Q to quit)",
    "SR OS": "Press any key to continue (Q to quit)",
    "SR OS, lines": "Press Q to quit, Enter to print next line or any other key to print next page.",
    "spaced": "Press <SPACE> to continue or <Q> to quit:",
    "space bar": "Press the space bar for more, Q to quit",
    "percent": "--More--(42%)",
    "ASA": "<--- More --->",
}
#: Pagers whose key is not certain, or which may confirm something. They are reported.
UNCERTAIN = {
    "AireOS, continue": "Press Enter to continue or <ctrl-z> to abort",
    "German": "-- weiter mit Leertaste, Ende mit q --",
    "French": "Suite (espace), quitter (q) > ",
    "Chinese": "按空格键继续, 按Q退出",
    "Japanese": "続き>",
    "one word": "weiter>",
    "brackets": "[more lines, hit a key]",
    "less": ":",
    "dots": "hit a key to go on ...",
}
FAMILIES = [None, "generic", "cisco_ios", "arista_eos", "hp_procurve", "juniper_junos"]
PROMPTS = ["R1# ", "sw1>", "sw1# ", "<HUAWEI>", "[~core-1]", "admin@fw> ", "> ", "# ", "/tmp # "]
WORDS = st.text(st.characters(categories=("L", "Nd"), exclude_characters="\x7f"), min_size=2, max_size=9)
MADE_UP = st.builds(
    lambda begin, words, end: f"{begin}{' '.join(words)}{end}",
    st.sampled_from(["", "-- ", "<", "[", "( ", "--- "]),
    st.lists(WORDS | st.sampled_from(["more", "<space>", "(q)", "Enter", "q=quit,", "50%"]), min_size=1, max_size=7),
    st.sampled_from(["", " ", ">", "> ", " > ", "#", "# ", "]", "] ", ")", " --", " ---", ":", ": ", "?", "...", " %", "$ "]),
)


class Paging(MemoryChannel):
    """Prints one page after a command, then a pager; a key erases the pager and shows the other page. Records the keys."""

    def __init__(self, pager: str, prompt: str, *, steps: bool = False) -> None:
        super().__init__(self._hear)
        self.keys = b""
        self._pager, self._prompt, self._steps = pager.encode(), prompt.encode(), steps
        self._line, self._paging = b"", False

    def _hear(self, data: bytes) -> bytes:
        return b"".join(self._key(data[at : at + 1]) for at in range(len(data)))

    def _key(self, key: bytes) -> bytes:
        if self._paging:
            self.keys += key
            cells = sum(2 if east_asian_width(each) in "WF" else 1 for each in self._pager.decode())
            erase = b"\r" + b" " * cells + b"\r"
            if key == b"\r" and self._steps:
                return erase + b"one more\r\n" + self._pager
            self._paging = False
            return erase + b"page 2\r\n" + self._prompt
        if key != b"\r":
            self._line += key
            return key
        self._line, self._paging = b"", True
        return b"\r\npage 1\r\n" + self._pager


def reply_at(
    pager: str, prompt: str = "R1# ", family: str | None = None, cmd: str = "show it", timeout_ms: int = 20_000
) -> tuple[ExecReply, bytes]:
    async def run(folder: str) -> tuple[ExecReply, bytes]:
        device, platform = Paging(pager, prompt), None if family is None else PLATFORMS.get(family)
        expect = Expect() if platform is None else merged_expect(Expect(), platform)
        async with at_prompt(Path(folder), device, expect=expect) as session:
            if platform is not None:
                session.set_platform(platform)
            device.feed(b"\r\n" + prompt.encode())
            session.prompt.learn(prompt)
            return await run_command(session, cmd, timeout_ms=timeout_ms), device.keys

    with tempfile.TemporaryDirectory() as folder:
        return run_virtually(run(folder))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pager", NAMED.values(), ids=NAMED)
def test_pager_that_names_its_key_is_answered(pager: str, family: str | None) -> None:
    reply, keys = reply_at(pager, family=family)
    assert (reply.done_reason, reply.stdout, reply.pages, keys) == ("prompt", "page 1\npage 2\n", 1, b" ")
    assert reply.duration_ms < 100


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pager", UNCERTAIN.values(), ids=UNCERTAIN)
def test_other_pager_is_reported_as_question(pager: str, family: str | None) -> None:
    if family is not None and PLATFORMS.get(family).describes_prompts and PLATFORMS.get(family).profile.is_prompt(pager):
        pytest.skip("the family's file describes such a prompt")
    reply, keys = reply_at(pager, family=family)
    assert (reply.done_reason, reply.waiting_for_input, keys) == ("question", True, b"")
    assert pager.strip() in reply.stdout
    assert reply.duration_ms <= UNFINISHED_S * 1000 + 10


@pytest.mark.parametrize("pager", UNCERTAIN.values(), ids=UNCERTAIN)
def test_pager_at_a_timeout_is_reported_as_waiting(pager: str) -> None:
    reply, _ = reply_at(pager, timeout_ms=3000)
    assert reply.waiting_for_input


@example("Suite (espace) > ", "> ", "show it", None, "")
@example("hit a key # ", "# ", "show it", "generic", "")
@example("-- weiter (q) >", "> ", "show it", None, "")
@example("weiter>", "sw1>", "show vlan name weiter2", None, "")
@example("more#", "sw1# ", "show it", "generic", "")
@example("(more)# ", "sw1#", "show it", "generic", " ")
@example("(weiter)# ", "sw1# ", "display x", "generic", "")
@example("(more)# ", "# ", "sh run", None, "")
@given(
    MADE_UP,
    st.sampled_from(PROMPTS),
    st.sampled_from(["show it", "show vlan name x", "sh run"]),
    st.sampled_from(FAMILIES),
    st.sampled_from([None, "", " ", "-", ": "]),
)
def test_pager_of_made_up_wording_never_ends_the_command(
    pager: str, prompt: str, cmd: str, family: str | None, after_host: str | None
) -> None:
    """`after_host`: what separates the text from the name of the device; None without the name."""
    pager = pager if after_host is None else f"{host_name(prompt)}{after_host}{pager}"
    described = family is not None and PLATFORMS.get(family).describes_prompts
    assume(not (described and PLATFORMS.get(family or "").profile.is_prompt(pager)))
    reply, _ = reply_at(pager, prompt, family, cmd)
    complete = reply.done_reason == "prompt" and reply.stdout == "page 1\npage 2\n"
    reported = reply.done_reason == "question" and reply.waiting_for_input
    has_words = sum(character.isalpha() for character in pager) > 1
    assert complete or reported or (reply.done_reason == "timeout" and not has_words), (reply.done_reason, reply.stdout)


@pytest.mark.parametrize("command", ["ping it", "verify flash"])
def test_pager_with_a_blank_after_the_name_of_the_device_is_a_question(command: str) -> None:
    reply, keys = reply_at("sw1 (weiter)# ", "sw1# ", "generic", command)
    assert (reply.done_reason, reply.waiting_for_input, keys) == ("question", True, b"")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("*sw1# ", "sw1# "),
        ("12:01:22 sw1# ", "12:01:23 sw1# "),
        ("a@b:~$ ", "a@b:~$ "),
        ("(sw) #", "(sw) #"),
    ],
)
def test_prompt_whose_marks_change_ends_a_command_that_shows(tmp_path: Path, before: str, after: str) -> None:
    async def run() -> ExecReply:
        device = Device(b"page 1\r\n" + after.encode())
        async with at_prompt(tmp_path, device) as session:
            device.feed(b"\r\n" + before.encode())
            session.prompt.learn(before)
            return await run_command(session, "show it")

    reply = run_virtually(run())
    assert (reply.done_reason, reply.stdout) == ("prompt", "page 1\n")


def test_key_of_the_caller_shows_the_other_page(tmp_path: Path) -> None:
    async def run() -> tuple[ExecReply, ExecReply]:
        async with at_prompt(tmp_path, Paging("weiter> ", "R1# ")) as session:
            asked = await run_command(session, "show it")
            await write_to(session, data=" ")
            return asked, await execute(session, again_for(asked), None)

    asked, ended = run_virtually(run())
    assert (asked.done_reason, asked.waiting_for_input) == ("question", True)
    assert "neither the known prompt nor a known pager" in (asked.message or "")
    assert (ended.done_reason, ended.stdout) == ("prompt", "page 1\npage 2\n")


def test_line_shown_again_directly_after_enter_is_the_prompt(tmp_path: Path) -> None:
    async def run() -> tuple[ExecReply, ExecReply, str | None]:
        device = Device(b"Connected.\r\nR2> ", 1, b"\r\nR2> ")
        async with at_prompt(tmp_path, device) as session:
            asked = await run_command(session, "jump R2")
            await write_to(session, data="\n")
            return asked, await execute(session, again_for(asked), None), session.prompt.learned

    asked, ended, learned = run_virtually(run())
    assert (asked.done_reason, ended.done_reason, learned) == ("question", "prompt", "R2> ")


def test_pager_shown_again_below_another_line_is_not_the_prompt(tmp_path: Path) -> None:
    async def run() -> tuple[ExecReply, ExecReply]:
        async with at_prompt(tmp_path, Paging("weiter> ", "R1# ", steps=True)) as session:
            asked = await run_command(session, "show it")
            await write_to(session, data="\n")
            return asked, await execute(session, again_for(asked), None)

    asked, again = run_virtually(run())
    assert asked.done_reason == "question"
    assert again.done_reason == "timeout"  # an uncertain question is reported to the first caller only
    assert again.waiting_for_input


@pytest.mark.parametrize("family", [None, "generic"])
@pytest.mark.parametrize(
    ("command", "before", "prompt", "longest_s"),
    [
        ("configure terminal", "R1# ", "R1(config)# ", 0.2),
        ("enable", "R1>", "R1#", 0.2),
        ("configure", "# ", "(config)# ", 0.2),
        ("cd /var", "/tmp # ", "/var # ", 0.2),
        ("system-view", "<HUAWEI>", "[HUAWEI]", 0.2),
        ("hostname R2", "R1(config)# ", "R2(config)# ", 0.2),
        ("commit and-quit", "admin@R1# ", "admin@R2> ", 0.2),
        ("ssh R2", "R1# ", "R2> ", 2.1),
        ("exit", "R2> ", "R1# ", 2.1),
        ("bash", "localhost#", "bash-4.2# ", 2.1),
    ],
)
def test_changed_prompt_of_an_undescribed_device_ends_the_command(
    tmp_path: Path, family: str | None, command: str, before: str, prompt: str, longest_s: float
) -> None:
    async def run() -> tuple[ExecReply, str | None]:
        device = Device(prompt.encode())
        async with at_prompt(tmp_path, device) as session:
            if family is not None:
                session.set_platform(PLATFORMS.get(family))
            device.feed(b"\r\n" + before.encode())
            session.prompt.learn(before)
            return await run_command(session, command), session.prompt.learned

    reply, learned = run_virtually(run())
    assert (reply.done_reason, learned) == ("prompt", prompt)
    assert reply.duration_ms <= longest_s * 1000


def test_probes_of_a_traceroute_are_not_reported(tmp_path: Path) -> None:
    acts: list[Act] = [b"Tracing the route\r\n  1 gw (192.0.2.1) 4 msec", 3.0, b" *", 3.0, b" *\r\n  2 ", 3.0, b"*\r\nR1# "]

    async def run() -> ExecReply:
        async with at_prompt(tmp_path, Device(*acts)) as session:
            return await run_command(session, "traceroute 192.0.2.9")

    assert run_virtually(run()).done_reason == "prompt"


def test_own_command_does_not_end_at_a_pager_that_looks_like_a_prompt(tmp_path: Path) -> None:
    async def run(device: Paging) -> str:
        generic = PLATFORMS.get("generic")
        async with at_prompt(tmp_path, device) as session:
            session.set_platform(generic)
            return (await DeviceCli(session.terminal, generic).run("show version", silence_s=5)).outcome

    device = Paging("weiter> ", "R1# ")
    assert (run_virtually(run(device)), device.keys) == ("silence", b"")
