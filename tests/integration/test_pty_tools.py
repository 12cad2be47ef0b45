"""The pty_* and blocks_* tools on a router over Telnet and on a shell over SSH."""

from __future__ import annotations

from fixtures.servers.frr import Zebra
from fixtures.servers.openssh import OpenSshServer
from ptyctl import LocalController, SessionHandle
from tests.controller.conversation import Pty
from tests.integration.test_frr_manual_login import log_in, open_zebra
from tests.integration.test_ssh_exec import target


async def test_pty_and_blocks_tools_on_router(controller: LocalController, zebra: Zebra) -> None:
    async with await open_zebra(controller, zebra) as session:
        await log_in(session, zebra)
        pty = Pty(controller, session_id=session.session_id)
        block = await pty.run("show version")
        assert block["text"].startswith("FRRouting")
        assert "R1#" not in block["text"]
        begun = await pty.good("pty_exec_block", cmd="configure terminal")
        prompt = await pty.prompt(begun["resume_cursor"])
        assert prompt["match_text"] == "R1(config)# "
        assert (await pty.run("end"))["text"] == ""
        cursor: int = block["spool_begin"]
        found: list[str] = []
        while len(found) < 3:
            prompt = await pty.good("pty_wait_for", match_type="prompt", from_cursor=cursor)
            found.append(prompt["match_text"])
            cursor = prompt["resume_cursor"]
        assert found == ["R1# ", "R1(config)# ", "R1# "]
        assert [hit["seq"] for hit in (await pty.good("blocks_search", query="FRRouting"))["hits"]] == [block["seq"]]
        await pty.refused("unsupported", "pty_exec_block", "cwd", cmd="show version", cwd="/tmp")


async def test_pty_and_blocks_tools_over_ssh(controller: LocalController, sshd: OpenSshServer) -> None:
    async with await SessionHandle.open(controller, **target(sshd)) as session:
        pty = Pty(controller, session_id=session.session_id)
        block = await pty.run("pwd; (exit 3)", cwd="/usr")
        assert (block["text"], block["exit_code"], block["cmd"]) == ("/usr\n", 3, "pwd; (exit 3)")
        begun = await pty.good("pty_exec_block", cmd="echo hi; (exit 4)")
        assert (await pty.prompt(begun["resume_cursor"]))["extra"]["exit_code"] == 4
        await pty.good("pty_send", data="echo $((40 + 2))\n")
        typed = await pty.match("\n42\n", begun["resume_cursor"])
        assert (await pty.prompt(typed["resume_cursor"]))["extra"]["exit_code"] == 0  # the shell sends marks
        assert (await pty.good("pty_reset"))["incarnation"] == 2
        assert (await pty.run("echo on"))["text"] == "on\n"
