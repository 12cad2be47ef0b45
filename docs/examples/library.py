"""Run commands in a session of this program, then share a console with other clients of the daemon."""

from __future__ import annotations

import asyncio

from ptyctl import ErrorCode, PtyctlError, connect, open_session
from ptyctl.api.session import Auth, SshOptions


async def check_host() -> int | None:
    """Open an SSH session in this process, run a command, and follow a log until an error appears."""
    async with open_session(
        protocol="ssh",
        host="192.0.2.20",
        username="admin",
        auth=Auth(method="agent"),
        ssh_options=SshOptions(host_key_policy="accept_new"),
    ) as session:
        reply = await session.exec("systemctl is-active nginx", timeout_ms=20_000)
        print(reply.exit_code, reply.stdout.strip())

        written = await session.write("journalctl -f\n")
        read = await session.read(cursor=written.next_cursor, until_regex="error", timeout_ms=30_000)
        if read.matched:
            print(read.chunk.splitlines()[-1])
        await session.key("ctrl_c")
        return reply.exit_code


async def save_switch() -> None:
    """Lock a console that other clients use too, and run a command on it."""
    async with connect() as daemon:
        console = await daemon.open(device="switch-001", session_type="console", task_id="upgrade-17")
        try:
            lock = await console.lock(wait_ms=30_000)
        except PtyctlError as error:
            if error.code is not ErrorCode.LOCKED:
                raise
            print(error.message, error.hint)
            return
        print(f"locked until {lock.lock_expires_at}, fence {lock.fence}")
        print((await console.exec("show version")).stdout)
        screen = await console.screen()
        print("\n".join(screen.rows), screen.cursor_row, screen.cursor_col)
        status = await console.status()
        print(status.state, status.mode, len(status.observers))
        await console.unlock()


if __name__ == "__main__":
    asyncio.run(check_host())
    asyncio.run(save_switch())
