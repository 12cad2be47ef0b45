"""The toolset `screen`: what a person would see, for programs that draw (editors, pagers, menus, installers)."""

from __future__ import annotations

from ptyctl.api import screen
from ptyctl.api.screen import DeltasReply, RawReply, ScreenReply, ScreenStatusReply, ScrollbackReply

from .pty_tool import pty_tool

TOOLS = (
    pty_tool(
        screen.PtyReadScreen,
        "See the screen",
        "What stands on the terminal's screen now, as rows, with the cursor (0-based), for programs that draw (vim, less). "
        "at: as it was then. To wait for something to appear: ptyctl_session_io read mode=screen with until_regex or "
        "until_idle_ms.",
        "rows cursor cursor_visible title alt_screen cols rows_count ts raw_offset attributes",
        reply=ScreenReply,
        read_only=True,
    ),
    pty_tool(
        screen.PtyReadScreenDeltas,
        "Watch the screen",
        "The rows that changed since cursor, at most 20 changes a second; go on from resume_cursor. The first call starts the "
        "recording and answers with all rows; it ends a while after the last call.",
        "deltas cursor resume_cursor",
        reply=DeltasReply,
        read_only=True,
    ),
    pty_tool(
        screen.PtyScreenStatus,
        "Where the screen is",
        "Title, size, the cursor's position, whether a full-screen program is on (alt_screen); cursor: the end of the deltas.",
        "cursor title alt_screen rows cols position",
        reply=ScreenStatusReply,
        read_only=True,
    ),
    pty_tool(
        screen.PtyReadScrollback,
        "Scroll back",
        "The newest lines that have left the screen at its top, the oldest first.",
        "lines",
        reply=ScrollbackReply,
        read_only=True,
    ),
    pty_tool(
        screen.PtyReadRaw,
        "Read the raw bytes",
        "Every byte as it came, with all escape sequences, for replay and debugging; page with from_offset = resume_offset.",
        "data_b64 offset resume_offset raw_size",
        reply=RawReply,
        read_only=True,
    ),
)
