"""A simulated switch that stays, for a first try of the tools on something that switches nothing."""

from __future__ import annotations

import asyncio
import signal

from .stage import simulated_switch

_TOLD = """\
A simulated switch, switch-001, until Ctrl-C. Try it in another terminal:

  ptyctl open telnet {host}:{port} --attach
  ptyctl open ssh admin@{host}:{ssh_port} --accept-new --password --attach

username admin, password {password}, enable secret {enable}

With this in devices.toml, `ptyctl open device switch-001` logs in by itself:

  [devices.switch-001]
  host = "{host}"
  port = {port}
  protocol = "telnet"
  session_type = "console"
  platform = "cisco_ios"
  username = "admin"
  password = {{ command = ["echo", "{password}"] }}
  enable_secret = {{ command = ["echo", "{enable}"] }}"""


async def stay() -> None:
    """Tells how to reach it, and ends it at SIGINT or SIGTERM."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with simulated_switch() as (device, switch):
        told = _TOLD.format(
            host=device.host, port=device.port, ssh_port=switch.ssh_port, password=device.password, enable=device.enable
        )
        print(told, flush=True)
        await ended.wait()
