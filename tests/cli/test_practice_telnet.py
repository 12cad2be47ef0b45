"""The practice switch over Telnet, by a raw socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.cli.practice import PracticeSwitch, Quirks
from ptyctl.cli.practice.pager import ERASE, MORE
from ptyctl.cli.practice.telnet_codec import TelnetCodec

IAC, DONT, DO, WONT, WILL, SB, SE = 255, 254, 253, 252, 251, 250, 240
ECHO, SGA, TTYPE, NAWS = 1, 3, 24, 31

GREETING = bytes([IAC, WILL, ECHO, IAC, WILL, SGA, IAC, DO, NAWS])
NAWS_80_10 = bytes([IAC, SB, NAWS, 0, 80, 0, 10, IAC, SE])


class Client:
    """A socket that knows no Telnet."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    @property
    def transport(self) -> asyncio.WriteTransport:
        return self._writer.transport

    async def until(self, end: bytes | tuple[bytes, ...]) -> bytes:
        """Everything up to `end`, or one of them, which must be the last thing that arrives."""
        seen = b""
        while not seen.endswith(end):
            piece = await asyncio.wait_for(self._reader.read(65536), 20)
            assert piece, f"the line was closed after {seen!r}"
            seen += piece
        return seen

    async def rest(self) -> bytes:
        """Everything until the far end closes."""
        return await asyncio.wait_for(self._reader.read(), 20)

    async def run(self, keys: bytes, end: bytes | tuple[bytes, ...]) -> bytes:
        self.send(keys)
        return await self.until(end)

    async def log_in(self, prompt: bytes = b"sw1#") -> Client:
        await self.until(b"Username: ")
        await self.run(b"admin\r\0", b"Password: ")
        await self.run(b"pw\r\0", b">")
        await self.run(b"enable\r\0", b"Password: ")
        await self.run(b"en\r\0", prompt)
        return self


@asynccontextmanager
async def connected(switch: PracticeSwitch) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(switch.host, switch.telnet_port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        # The far end may be gone already, and with a reset.
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def practice(**options: object) -> PracticeSwitch:
    return PracticeSwitch("sw1", password="pw", enable_secret="en", **options)  # type: ignore[arg-type]


class TestCodec:
    def decoded(self, *pieces: bytes) -> tuple[bytes, bytes, list[tuple[int, int]]]:
        sizes: list[tuple[int, int]] = []
        codec = TelnetCodec(lambda cols, rows: sizes.append((cols, rows)))
        found = [codec.feed(piece) for piece in pieces]
        return b"".join(data for data, _ in found), b"".join(reply for _, reply in found), sizes

    def test_what_is_agreed_is_not_answered(self) -> None:
        agreed = bytes([IAC, DO, ECHO, IAC, DO, SGA, IAC, WILL, NAWS])
        assert self.decoded(b"a" + agreed + b"b") == (b"ab", b"", [])

    def test_each_option_is_answered_once(self) -> None:
        asked = bytes([IAC, DO, TTYPE, IAC, WILL, TTYPE, IAC, WILL, SGA, IAC, WILL, SGA])
        assert self.decoded(asked)[1] == bytes([IAC, WONT, TTYPE, IAC, DONT, TTYPE, IAC, DO, SGA])

    def test_a_refusal_is_taken_and_a_withdrawal_confirmed(self) -> None:
        assert self.decoded(bytes([IAC, DONT, ECHO, IAC, WONT, NAWS]))[1] == b""
        assert self.decoded(bytes([IAC, DO, ECHO, IAC, DONT, ECHO, IAC, DONT, ECHO]))[1] == bytes([IAC, WONT, ECHO])

    def test_sizes(self) -> None:
        wide = bytes([IAC, SB, NAWS, 1, IAC, IAC, 0, 24, IAC, SE])
        assert self.decoded(NAWS_80_10 + wide)[2] == [(80, 10), (511, 24)]

    @pytest.mark.parametrize("payload", [b"", b"\x18\0xterm", bytes([NAWS, 0, 80]), bytes([NAWS]) + b"x" * 1000])
    def test_other_subnegotiations_are_dropped(self, payload: bytes) -> None:
        assert self.decoded(bytes([IAC, SB]) + payload + bytes([IAC, SE]) + b"a") == (b"a", b"", [])

    def test_commands_that_are_keys(self) -> None:
        assert self.decoded(b"a\xff\xf3b\xff\xf4c\xff\xffd\xff\xf1")[0] == b"a\x1eb\x03c\xffd"

    def test_data_is_escaped(self) -> None:
        assert TelnetCodec.encode(b"a\xff") == b"a\xff\xff"

    pieces = st.sampled_from([b"a", b"\r", b"\xff", b"\xfd", b"\xfb", b"\xfa", b"\xf0", b"\x1f", b"\x01", NAWS_80_10])

    @given(st.lists(pieces, max_size=40))
    def test_the_cut_does_not_matter(self, pieces: list[bytes]) -> None:
        whole = b"".join(pieces)
        assert self.decoded(*(bytes([byte]) for byte in whole)) == self.decoded(whole)


class TestSession:
    async def test_the_greeting(self) -> None:
        async with practice() as switch, connected(switch) as client:
            assert await client.until(b"Username: ") == GREETING + b"\r\n\r\nUser Access Verification\r\n\r\nUsername: "

    @pytest.mark.parametrize("enter", [b"\r", b"\n", b"\r\n", b"\r\0"])
    async def test_one_enter_is_one_prompt(self, enter: bytes) -> None:
        async with practice() as switch, connected(switch) as client:
            await client.log_in()
            client.send(enter + b"terminal length 0" + enter + enter + b"exit" + enter)
            assert await client.rest() == b"\r\nsw1#terminal length 0\r\nsw1#\r\nsw1#exit\r\n"

    async def test_three_wrong_passwords_close_the_line(self) -> None:
        async with practice() as switch, connected(switch) as client:
            for _ in range(3):
                await client.until(b"Username: ")
                await client.run(b"admin\r", b"Password: ")
                client.send(b"wrong\r")
            assert await client.rest() == b"\r\n% Login invalid\r\n\r\n"

    async def test_the_pager_erased_is_the_whole_text(self) -> None:
        more = MORE.encode()
        async with practice() as switch, connected(switch) as client:
            client.send(bytes([IAC, WILL, NAWS]) + NAWS_80_10)
            await client.log_in()
            page = paged = await client.run(b"show running-config\r", more)
            assert page.count(b"\r\n") == 1 + 9
            while page.endswith(more):
                page = await client.run(b" ", (more, b"sw1#"))
                paged += page
            await client.run(b"terminal length 0\r", b"sw1#")
            assert paged.replace(more + ERASE.encode(), b"") == await client.run(b"show running-config\r", b"sw1#")

    async def test_ctrl_c_in_the_pager_and_in_ping(self) -> None:
        async with practice(ping_interval=0.001) as switch, connected(switch) as client:
            await client.log_in()
            await client.run(b"show running-config\r", MORE.encode())
            assert await client.run(b"\x03", b"sw1#") == ERASE.encode() + b"sw1#"
            client.send(b"ping 192.0.2.1 repeat 1000000\r")
            await client.until(b"!")
            assert b"Success rate is 100 percent" in await client.run(b"\x03", b"sw1#")
            assert await client.run(b"\r", b"sw1#") == b"\r\nsw1#"

    async def test_a_telnet_break_interrupts(self) -> None:
        async with practice(ping_interval=0.001) as switch, connected(switch) as client:
            await client.log_in()
            client.send(b"ping 192.0.2.1 repeat 1000000\r")
            await client.until(b"!")
            assert b"Success rate is" in await client.run(b"\xff\xf3", b"sw1#")

    async def test_a_ping_goes_on_by_itself(self) -> None:
        async with practice(ping_interval=0.001) as switch, connected(switch) as client:
            await client.log_in()
            said = await client.run(b"ping 203.0.113.9 repeat 3\r", b"sw1#")
            assert said.endswith(b"seconds:\r\n...\r\nSuccess rate is 0 percent (0/3)\r\nsw1#")


class TestSeveral:
    async def test_two_sessions_do_not_cross_talk(self) -> None:
        async with practice() as switch, connected(switch) as one, connected(switch) as two:
            await asyncio.gather(one.log_in(), two.log_in())
            first, second = await asyncio.gather(
                one.run(b"show ip interface brief | include Vlan\r", b"sw1#"),
                two.run(b"show startup-config | i name\r", b"sw1#"),
            )
            assert b"name" not in first
            assert b"Vlan" not in second
            one.send(b"half a li")
            await one.until(b"half a li")
            assert await two.run(b"\r", b"sw1#") == b"\r\nsw1#"

    async def test_twenty_at_once(self) -> None:
        async def visit(switch: PracticeSwitch, number: int) -> bytes:
            async with connected(switch) as client:
                await client.log_in()
                await client.run(b"terminal length 0\r", b"sw1#")
                line = f"show running-config | include interface .*/{number}$\r"
                return await client.run(line.encode(), b"sw1#")

        async with practice() as switch:
            found = await asyncio.gather(*(visit(switch, number) for number in range(1, 21)))
        for number, said in enumerate(found, 1):
            assert said.count(b"interface GigabitEthernet1/0/") == 1
            assert f"\r\ninterface GigabitEthernet1/0/{number}\r\n".encode() in said

    async def test_a_hostname_reaches_the_others(self) -> None:
        async with practice() as switch, connected(switch) as one, connected(switch) as two:
            await asyncio.gather(one.log_in(), two.log_in())
            await one.run(b"conf t\r", b"(config)#")
            await one.run(b"hostname core\r", b"core(config)#")
            assert switch.hostname == "core"
            await two.run(b"\r", b"core#")

    async def test_syslog_goes_to_who_wants_it(self) -> None:
        async with practice() as switch, connected(switch) as one, connected(switch) as two:
            await asyncio.gather(one.log_in(), two.log_in())
            await one.run(b"terminal monitor\r", b"sw1#")
            await switch.syslog("%LINK-3-UPDOWN: Interface Gi1/0/9, changed state to down")
            said = await one.until(b"to down\r\n")
            assert said.startswith(b"\r\n*Mar  1 00:0")
            assert await one.run(b"\r", b"sw1#") == b"\r\nsw1#"
            assert await two.run(b"\r", b"sw1#") == b"\r\nsw1#"
            assert b"Gi1/0/9" in await two.run(b"show logging\r", b"sw1#")

    async def test_a_reload_ends_all_sessions(self) -> None:
        async with practice() as switch:
            async with connected(switch) as one, connected(switch) as two:
                await asyncio.gather(one.log_in(), two.log_in())
                await one.run(b"conf t\rhostname lost\rend\r", b"lost#")
                await one.run(b"reload\r", b"[yes/no]: ")
                await one.run(b"no\r", b"[confirm]")
                one.send(b"\r")
                await one.rest()
                assert await two.rest() == b""
            async with connected(switch) as again:
                await again.log_in(b"sw1#")


class TestSharedConsole:
    async def test_all_see_the_same(self) -> None:
        async with practice(shared_console=True) as switch, connected(switch) as one:
            await one.log_in()
            async with connected(switch) as two:
                assert await two.until(GREETING) == GREETING
                two.send(b"show cl")
                await asyncio.gather(one.until(b"show cl"), two.until(b"show cl"))
                one.send(b"ock\r")
                assert await one.until(b"sw1#") == await two.until(b"sw1#")

    async def test_it_outlives_its_connections(self) -> None:
        async with practice(shared_console=True) as switch:
            async with connected(switch) as one:
                await one.log_in()
                await one.run(b"conf t\r", b"(config)#")
            async with connected(switch) as two:
                assert await two.run(b"\r", b"(config)#") == GREETING + b"\r\nsw1(config)#"

    async def test_syslog_is_shown_without_being_asked_for(self) -> None:
        async with practice(shared_console=True) as switch, connected(switch) as client:
            await client.log_in()
            await switch.syslog("%SYS-5-TEST: hello")
            await client.until(b"%SYS-5-TEST: hello\r\n")

    async def test_logging_out_keeps_the_connection(self) -> None:
        async with practice(shared_console=True) as switch, connected(switch) as client:
            await client.log_in()
            await client.run(b"exit\r", b"get started.\r\n\r\n")
            await client.run(b"\r", b"Username: ")

    async def test_after_a_reload_somebody_has_to_log_in(self) -> None:
        async with practice(shared_console=True) as switch, connected(switch) as client:
            await client.log_in()
            await client.run(b"reload\r", b"[confirm]")
            await client.run(b"\r", b"get started.\r\n\r\n")
            await client.run(b"\r", b"Username: ")


class TestFaults:
    async def test_a_dropped_line(self) -> None:
        async with practice(quirks=Quirks(drop_line_after=3)) as switch, connected(switch) as client:
            await client.log_in()
            await client.run(b"terminal length 0\r", b"sw1#")
            client.send(b"show version\r")
            said = await client.rest()
            assert said.startswith(b"show version\r\nCisco IOS Software")
            assert b"Configuration register" not in said

    async def test_a_dropped_line_leaves_the_console_as_it_is(self) -> None:
        async with practice(quirks=Quirks(drop_line_after=2), shared_console=True) as switch:
            async with connected(switch) as client:
                await client.log_in()
                client.send(b"conf t\r")
                await client.rest()
            async with connected(switch) as client:
                assert await client.run(b"\r", b"(config)#") == GREETING + b"\r\nsw1(config)#"

    async def test_slow_output_is_whole(self) -> None:
        async with practice(quirks=Quirks(slow_output=50_000)) as switch, connected(switch) as client:
            await client.log_in()
            await client.run(b"terminal length 0\r", b"sw1#")
            assert (await client.run(b"show version\r", b"sw1#")).count(b"\r\n") > 20

    async def test_a_client_that_never_reads_does_not_fill_the_memory(self) -> None:
        async with practice() as switch, connected(switch) as client:
            await client.log_in()
            await client.run(b"terminal length 0\r", b"sw1#")
            transport = client.transport
            transport.pause_reading()
            line = b"show tech-support\r"
            while transport.get_write_buffer_size() < 1 << 20:
                client.send(line * 1000)
                # The switch is given its turns; once it reads no further, what is sent stays here.
                await asyncio.sleep(0)
            transport.abort()

    async def test_a_long_paste_is_typed_to_its_end(self) -> None:
        async with practice() as switch, connected(switch) as client:
            await client.log_in()
            said = await client.run(b"conf t\r" + b"int gi1/0/1\rdesc x\r" * 2000 + b"end\rexit", b"sw1#exit")
            assert said.count(b"(config-if)#desc x\r\n") == 2000

    async def test_stopping_ends_whoever_is_connected(self) -> None:
        switch = practice()
        async with switch:
            reader, writer = await asyncio.open_connection(switch.host, switch.telnet_port)
            await reader.readuntil(b"Username: ")
        with pytest.raises(OSError, match=r"."):
            await asyncio.open_connection(switch.host, switch.telnet_port)
        assert reader.at_eof() or await reader.read() == b""
        writer.close()

    async def test_syslog_needs_a_running_switch(self) -> None:
        with pytest.raises(RuntimeError, match="not running"):
            await practice().syslog("%X-1-Y: z")
