"""Telnet server of the simulated switch, with a raw socket."""

from __future__ import annotations

import asyncio
import socket

import pytest

from ptyctl.simulator import Quirks, SimulatedSwitch
from ptyctl.simulator.pager import IOS_PAGER
from tests.simulator.telnet_client import GREETING, IAC, NAWS, NAWS_80_10, WILL, connected, create_switch


class TestSession:
    async def test_connect_sends_options_and_banner(self) -> None:
        async with create_switch() as switch, connected(switch) as client:
            assert await client.until(b"Username: ") == GREETING + b"\r\n\r\nUser Access Verification\r\n\r\nUsername: "

    @pytest.mark.parametrize("enter", [b"\r", b"\n", b"\r\n", b"\r\0"])
    async def test_each_line_end_variant_is_one_enter(self, enter: bytes) -> None:
        async with create_switch() as switch, connected(switch) as client:
            await client.log_in()
            client.send(enter + b"terminal length 0" + enter + enter + b"exit" + enter)
            assert await client.read_all() == b"\r\nsw1#terminal length 0\r\nsw1#\r\nsw1#exit\r\n"

    async def test_three_wrong_passwords_close_connection(self) -> None:
        async with create_switch() as switch, connected(switch) as client:
            for _ in range(3):
                await client.until(b"Username: ")
                await client.run(b"admin\r", b"Password: ")
                client.send(b"wrong\r")
            assert await client.read_all() == b"\r\n% Login invalid\r\n\r\n"

    async def test_pages_without_prompts_equal_whole_output(self) -> None:
        more = IOS_PAGER.prompt.encode()
        async with create_switch() as switch, connected(switch) as client:
            client.send(bytes([IAC, WILL, NAWS]) + NAWS_80_10)
            await client.log_in()
            page = paged = await client.run(b"show running-config\r", more)
            assert page.count(b"\r\n") == 1 + 9
            while page.endswith(more):
                page = await client.run(b" ", (more, b"sw1#"))
                paged += page
            await client.run(b"terminal length 0\r", b"sw1#")
            assert paged.replace(more + IOS_PAGER.eraser.encode(), b"") == await client.run(b"show running-config\r", b"sw1#")

    async def test_ctrl_c_ends_pager_and_ping(self) -> None:
        async with create_switch(ping_interval=0.001) as switch, connected(switch) as client:
            await client.log_in()
            await client.run(b"show running-config\r", IOS_PAGER.prompt.encode())
            assert await client.run(b"\x03", b"sw1#") == IOS_PAGER.eraser.encode() + b"sw1#"
            client.send(b"ping 192.0.2.1 repeat 1000000\r")
            await client.until(b"!")
            assert b"Success rate is 100 percent" in await client.run(b"\x03", b"sw1#")
            assert await client.run(b"\r", b"sw1#") == b"\r\nsw1#"

    async def test_telnet_break_interrupts_ping(self) -> None:
        async with create_switch(ping_interval=0.001) as switch, connected(switch) as client:
            await client.log_in()
            client.send(b"ping 192.0.2.1 repeat 1000000\r")
            await client.until(b"!")
            assert b"Success rate is" in await client.run(b"\xff\xf3", b"sw1#")

    async def test_ping_continues_without_input(self) -> None:
        async with create_switch(ping_interval=0.001) as switch, connected(switch) as client:
            await client.log_in()
            said = await client.run(b"ping 203.0.113.9 repeat 3\r", b"sw1#")
            assert said.endswith(b"seconds:\r\n...\r\nSuccess rate is 0 percent (0/3)\r\nsw1#")


class TestSeveral:
    async def test_two_sessions_are_independent(self) -> None:
        async with create_switch() as switch, connected(switch) as one, connected(switch) as two:
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

    async def test_twenty_concurrent_sessions_get_own_output(self) -> None:
        async def visit(switch: SimulatedSwitch, number: int) -> bytes:
            async with connected(switch) as client:
                await client.log_in()
                await client.run(b"terminal length 0\r", b"sw1#")
                line = f"show running-config | include interface .*/{number}$\r"
                return await client.run(line.encode(), b"sw1#")

        async with create_switch() as switch:
            found = await asyncio.gather(*(visit(switch, number) for number in range(1, 21)))
        for number, said in enumerate(found, 1):
            assert said.count(b"interface GigabitEthernet1/0/") == 1
            assert f"\r\ninterface GigabitEthernet1/0/{number}\r\n".encode() in said

    async def test_hostname_change_is_visible_in_other_session(self) -> None:
        async with create_switch() as switch, connected(switch) as one, connected(switch) as two:
            await asyncio.gather(one.log_in(), two.log_in())
            await one.run(b"conf t\r", b"(config)#")
            await one.run(b"hostname core\r", b"core(config)#")
            assert switch.hostname == "core"
            await two.run(b"\r", b"core#")

    async def test_syslog_is_shown_where_monitored_only(self) -> None:
        async with create_switch() as switch, connected(switch) as one, connected(switch) as two:
            await asyncio.gather(one.log_in(), two.log_in())
            await one.run(b"terminal monitor\r", b"sw1#")
            await switch.syslog("%LINK-3-UPDOWN: Interface Gi1/0/9, changed state to down")
            said = await one.until(b"to down\r\n")
            assert said.startswith(b"\r\n*Mar  1 00:0")
            assert await one.run(b"\r", b"sw1#") == b"\r\nsw1#"
            assert await two.run(b"\r", b"sw1#") == b"\r\nsw1#"
            assert b"Gi1/0/9" in await two.run(b"show logging\r", b"sw1#")

    async def test_reload_closes_all_sessions(self) -> None:
        async with create_switch() as switch:
            async with connected(switch) as one, connected(switch) as two:
                await asyncio.gather(one.log_in(), two.log_in())
                await one.run(b"conf t\rhostname lost\rend\r", b"lost#")
                await one.run(b"reload\r", b"[yes/no]: ")
                await one.run(b"no\r", b"[confirm]")
                one.send(b"\r")
                await one.read_all()
                assert await two.read_all() == b""
            async with connected(switch) as again:
                await again.log_in(b"sw1#")


class TestSharedConsole:
    async def test_shared_console_shows_same_output_to_all(self) -> None:
        async with create_switch(shared_console=True) as switch, connected(switch) as one:
            await one.log_in()
            async with connected(switch) as two:
                assert await two.until(GREETING) == GREETING
                two.send(b"show cl")
                await asyncio.gather(one.until(b"show cl"), two.until(b"show cl"))
                one.send(b"ock\r")
                assert await one.until(b"sw1#") == await two.until(b"sw1#")

    async def test_shared_console_outlives_its_connections(self) -> None:
        async with create_switch(shared_console=True) as switch:
            async with connected(switch) as one:
                await one.log_in()
                await one.run(b"conf t\r", b"(config)#")
            async with connected(switch) as two:
                assert await two.run(b"\r", b"(config)#") == GREETING + b"\r\nsw1(config)#"

    async def test_shared_console_shows_syslog_by_default(self) -> None:
        async with create_switch(shared_console=True) as switch, connected(switch) as client:
            await client.log_in()
            await switch.syslog("%SYS-5-TEST: hello")
            await client.until(b"%SYS-5-TEST: hello\r\n")

    async def test_shared_console_shows_own_log_line_once(self) -> None:
        async with create_switch(shared_console=True) as switch, connected(switch) as client:
            await client.log_in()
            await client.run(b"conf t\r", b"(config)#")
            assert (await client.run(b"end\r", b"sw1#")).count(b"%SYS-5-CONFIG_I") == 1
            assert await client.run(b"\r", b"sw1#") == b"\r\nsw1#"

    async def test_shared_console_logout_keeps_connection(self) -> None:
        async with create_switch(shared_console=True) as switch, connected(switch) as client:
            await client.log_in()
            await client.run(b"exit\r", b"get started.\r\n\r\n")
            await client.run(b"\r", b"Username: ")

    async def test_shared_console_reload_requires_login(self) -> None:
        async with create_switch(shared_console=True) as switch, connected(switch) as client:
            await client.log_in()
            await client.run(b"reload\r", b"[confirm]")
            await client.run(b"\r", b"get started.\r\n\r\n")
            await client.run(b"\r", b"Username: ")


class TestFaults:
    async def test_drop_line_after_closes_connection_in_output(self) -> None:
        async with create_switch(quirks=Quirks(drop_line_after=3)) as switch, connected(switch) as client:
            await client.log_in()
            await client.run(b"terminal length 0\r", b"sw1#")
            client.send(b"show version\r")
            said = await client.read_all()
            assert said.startswith(b"show version\r\nCisco IOS Software")
            assert b"Configuration register" not in said

    async def test_drop_line_after_keeps_state_of_shared_console(self) -> None:
        async with create_switch(quirks=Quirks(drop_line_after=2), shared_console=True) as switch:
            async with connected(switch) as client:
                await client.log_in()
                client.send(b"conf t\r")
                await client.read_all()
            async with connected(switch) as client:
                assert await client.run(b"\r", b"(config)#") == GREETING + b"\r\nsw1(config)#"

    async def test_slow_output_is_complete(self) -> None:
        async with create_switch(quirks=Quirks(slow_output=50_000)) as switch, connected(switch) as client:
            await client.log_in()
            await client.run(b"terminal length 0\r", b"sw1#")
            assert (await client.run(b"show version\r", b"sw1#")).count(b"\r\n") > 20

    async def test_client_that_does_not_read_stops_its_line(self) -> None:
        async with create_switch() as switch, connected(switch) as client:
            await client.log_in()
            await client.run(b"terminal length 0\r", b"sw1#")
            # Limit the kernel's receive buffer to less than the output, independent of system defaults.
            client.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            client.transport.pause_reading()
            client.send(b"show tech-support\r" * 1000 + b"configure terminal\rhostname reached\r")
            # Many more loop iterations than the switch needs to process the input.
            for _ in range(200):
                await asyncio.sleep(0)
            assert switch.hostname == "sw1"
            client.transport.resume_reading()
            await client.skip_to(b"reached(config)#")

    async def test_long_paste_is_processed_completely(self) -> None:
        async with create_switch() as switch, connected(switch) as client:
            await client.log_in()
            said = await client.run(b"conf t\r" + b"int gi1/0/1\rdesc x\r" * 2000 + b"end\rexit", b"sw1#exit")
            assert said.count(b"(config-if)#desc x\r\n") == 2000

    async def test_stopped_switch_closes_connections(self) -> None:
        switch = create_switch()
        async with switch:
            reader, writer = await asyncio.open_connection(switch.host, switch.telnet_port)
            await reader.readuntil(b"Username: ")
        with pytest.raises(OSError, match=r"."):
            await asyncio.open_connection(switch.host, switch.telnet_port)
        assert reader.at_eof() or await reader.read() == b""
        writer.close()

    async def test_syslog_on_stopped_switch_raises(self) -> None:
        with pytest.raises(RuntimeError, match="not running"):
            await create_switch().syslog("%X-1-Y: z")
