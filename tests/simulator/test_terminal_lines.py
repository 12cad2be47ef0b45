"""Line driver: pacing, interrupts and congested connections."""

from __future__ import annotations

import asyncio

from ptyctl.simulator import Quirks
from ptyctl.simulator.device import DeviceAccount, SimulatedDevice
from ptyctl.simulator.quirky_console import QuirkyConsole
from ptyctl.simulator.terminal_lines import MAX_BACKLOG, MAX_INPUT, LineDriver
from tests.simulator.console_user import ConsoleUser


class Screen:
    """Line connection that records the output."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.paused = 0
        self._arrived = asyncio.Event()

    @property
    def text(self) -> str:
        return b"".join(self.pieces).decode()

    async def until(self, wanted: str) -> None:
        while not self.text.endswith(wanted):
            self._arrived.clear()
            await asyncio.wait_for(self._arrived.wait(), 120)

    def write(self, data: bytes) -> None:
        self.pieces.append(data)
        self._arrived.set()

    def close(self) -> None:
        self.write(b"<closed>")

    def drop(self) -> None:
        self.close()

    def pause(self) -> None:
        self.paused += 1

    def resume(self) -> None:
        self.paused = 0


class TestSlowOutput:
    def line(self, rate: float, keys: str = "") -> tuple[LineDriver, Screen]:
        console = QuirkyConsole(
            SimulatedDevice("sw1", DeviceAccount("admin", "pw")), "vty0", Quirks(slow_output=rate), user="admin"
        )
        line, screen = LineDriver(console, lambda: 0.0, lambda _line, _action: None), Screen()
        line.attach(screen)
        return line, screen

    async def test_slow_output_arrives_in_pieces_and_complete(self) -> None:
        line, screen = self.line(20_000)
        line.receive(b"term len 0\rshow version\rexit\r")
        await screen.until("<closed>")
        expected = ConsoleUser(account=DeviceAccount("admin", "pw")).log_in().type("term len 0\rshow version\rexit\r")
        assert screen.text == "\r\nsw1>" + expected + "<closed>"
        assert all(len(piece) <= 400 for piece in screen.pieces)

    async def test_slow_output_does_not_block_event_loop(self) -> None:
        line, screen = self.line(10.0)
        line.receive(b"show version\r")
        await asyncio.sleep(0)
        assert len(screen.text) < 10
        line.stop()

    async def test_interrupt_discards_queued_output(self) -> None:
        line, screen = self.line(2_000)
        line.receive(b"term len 0\rshow interfaces status\r")
        line.receive(b"\x03")
        await screen.until("^C\r\nsw1>")
        assert "Gi1/0/48" not in screen.text

    async def test_input_over_limit_pauses_reading_until_interrupt(self) -> None:
        line, screen = self.line(1.0)
        line.receive(b"term len 0\r" + b"show interfaces status\r" * (MAX_BACKLOG // 4000 + 1))
        assert screen.paused == 0
        line.receive(b"x" * (MAX_INPUT + 1))
        assert screen.paused == 1
        line.receive(b"\x03")
        assert screen.paused == 0
        line.stop()

    async def test_interrupt_overtakes_queued_commands(self) -> None:
        line, screen = self.line(1_000)
        line.receive(b"term len 0\r" + b"show interfaces status\r" * 40 + b"show version\r")
        line.receive(b"\x03show clock\r")
        await screen.until("1993\r\nsw1>")
        assert "show version" not in screen.text
        line.stop()


class TestFlow:
    async def test_congested_connection_stops_line(self) -> None:
        console = QuirkyConsole(SimulatedDevice("sw1", DeviceAccount("admin", "pw")), user="admin")
        line, screen, other = LineDriver(console, lambda: 0.0, lambda _line, _action: None), Screen(), Screen()
        line.attach(screen)
        line.attach(other)
        line.pause_output(other)
        line.receive(b"show clock\r")
        assert "show" not in screen.text
        line.resume_output(other)
        await screen.until("1993\r\nsw1>")

    async def test_detached_connection_does_not_stop_line(self) -> None:
        console = QuirkyConsole(SimulatedDevice("sw1", DeviceAccount("admin", "pw")), user="admin")
        line, screen, other = LineDriver(console, lambda: 0.0, lambda _line, _action: None), Screen(), Screen()
        line.attach(screen)
        line.attach(other)
        line.pause_output(other)
        line.receive(b"show clock\r")
        line.detach(other)
        await screen.until("1993\r\nsw1>")
