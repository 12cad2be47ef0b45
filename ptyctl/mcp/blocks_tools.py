"""The toolset `blocks`: every command that ran in a terminal, with its output, to list, read and search."""

from __future__ import annotations

from ptyctl.api import blocks
from ptyctl.api.blocks import BlocksReply

from .pty_tool import pty_tool

TOOLS = (
    pty_tool(
        blocks.BlocksSince,
        "List what ran",
        "Blocks (one command each: cmd, cwd, status, exit_code, times) that began or ended since cursor, 0 for all; go on from "
        "resume_cursor, which counts blocks, not bytes.",
        "items resume_cursor",
        reply=BlocksReply,
        read_only=True,
    ),
    pty_tool(blocks.BlocksGet, "One block", "What is known of one block.", "block", reply=BlocksReply, read_only=True),
    pty_tool(
        blocks.BlocksRead,
        "Read a block's output",
        "The output of one command as text, as a terminal would show it in the end: no echo, prompt, colours, redraws; "
        "or format raw. Page with offset = resume_offset until complete. A running block can be read too.",
        "data data_b64 offset resume_offset size complete",
        reply=BlocksReply,
        read_only=True,
    ),
    pty_tool(
        blocks.BlocksSearch,
        "Search all output",
        "Lines of output that have query (a substring, or with regex an RE2 pattern; ^ and $ are lines), in one block or all; "
        "narrow it by cmd, status and time. A hit names its block, line and offset in the spool (a cursor for pty_read_spool).",
        "hits truncated",
        reply=BlocksReply,
        read_only=True,
    ),
)
