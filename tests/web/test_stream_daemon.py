"""The stream of a daemon that is killed: the next one continues its terminals where their viewers were."""

from __future__ import annotations

import signal

from fixtures.daemons import end_daemon
from ptyctl.api.handle import SessionHandle
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.web.stream_client import stream_client, stream_server


async def test_terminal_continues_in_next_daemon_byte_exact(runtime_dir: RuntimeDir) -> None:
    async with await RemoteController.connect(runtime_dir) as controller:
        command = ("bash", "--norc", "--noprofile")
        handle = await SessionHandle.open(controller, protocol="local", command=command, shell_integration="off")
        async with stream_server(controller) as address, stream_client(address) as client:
            await client.subscribe(1, f"terminal:{handle.session_id}")
            await client.message(1, "snapshot")
            await handle.write("echo bef''ore\n")
            terminal = await client.screen(1, "before")
            end_daemon(runtime_dir, signal.SIGKILL)
            assert (await client.message(1, "error"))["error"]["retryable"]
    async with await RemoteController.connect(runtime_dir) as controller:
        async with stream_server(controller) as address, stream_client(address) as client:
            await client.subscribe(1, f"terminal:{handle.session_id}")  # a viewer that opens the page now
            await client.message(1, "snapshot")
            client.terminals[2] = terminal
            await client.subscribe(2, f"terminal:{handle.session_id}", terminal.offset)
            await client.message(2, "resume")
            shell = SessionHandle(controller, handle.session_id, handle.task_id)
            await shell.write("\x03")  # without marks, the next daemon does not know whether the shell is at its prompt
            assert (await shell.read(cursor="0", until_regex=r"\^C\n", timeout_ms=50_000)).matched
            await shell.write("echo af''ter\n")
            await client.screen(2, "after")
            await client.screen(1, "after")
            if client.terminals[1].offset != terminal.offset:  # the prompt after it may reach one viewer earlier
                await client.until(lambda _: client.terminals[1].offset == terminal.offset)
            assert client.terminals[1].model.snapshot().rows == terminal.model.snapshot().rows
        await SessionHandle(controller, handle.session_id, handle.task_id).close(force=True)
