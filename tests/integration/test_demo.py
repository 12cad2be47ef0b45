"""`ptyctl demo` as a process, on the simulated switch and on a real device."""

from __future__ import annotations

from fixtures.forked_process import PTYCTL, ForkedProgram
from fixtures.servers.frr import Zebra
from tests.cli.command_line import ptyctl


def demo(*arguments: str) -> tuple[int | None, str]:
    process = ForkedProgram(PTYCTL, "demo", *arguments)
    output, errors = process.communicate()
    return process.returncode, output + errors


def test_demo_on_simulated_switch_succeeds() -> None:
    code, output = demo()
    assert code == 0, output
    assert "Session locked by task task-maint" in output
    assert "got the same session" in output
    assert "has the lock now, fence 2" in output


def test_demo_on_real_device_succeeds_and_prints_no_password(zebra: Zebra) -> None:
    address = f"{zebra.host}:{zebra.port}"
    code, output = demo("--telnet", address, "--password", zebra.password, "--enable", zebra.enable_password)
    assert code == 0, output
    assert zebra.password not in output
    assert zebra.enable_password not in output


def test_demo_failure_prints_one_line_and_exit_code(zebra: Zebra) -> None:
    code, output = demo("--telnet", f"{zebra.host}:{zebra.port}", "--password", "wrong")
    assert (code, "it is wrong" in output, "Traceback" in output) == (1, True, False)


def test_demo_on_invalid_address_exits_with_2() -> None:
    result = ptyctl("demo", "--telnet", "nonsense")
    assert (result.code, "HOST:PORT" in result.err) == (2, True)
