"""The toolset `core`: the four ptyctl tools. Their descriptions teach an agent the workflow; a test holds their size."""

from __future__ import annotations

from ptyctl.api import ConfigReply, ConfigRequest, ExecReply, ExecRequest, IoReply, IoRequest, SessionReply, SessionRequest
from ptyctl.api.methods import METHODS

from .tool import Tool

_SESSION = """\
Open, share, list and close terminals that live on between calls: local shells, SSH hosts, Telnet/SSH device consoles.
Workflow: open; ptyctl_session_io read mode=tail once; then ptyctl_session_exec, or io write and read; close.
A console (session_type=console, device_id) is one session for everybody. Writing to it needs its lock: \
lock with task_id, heartbeat at half of lock_ttl_ms (60000), unlock when done. Reading never needs it.
LOCKED: another task types; go on reading, lock later. LOCK_REQUIRED: lock first. \
LOCK_LOST: yours ended; lock again, read what happened since."""

_EXEC = """\
Run a command in a session and get its output: give cmd, or lines, or block_id. exit_code is null where the far end has none.
timed_out: it still runs; call again with its block_id instead of cmd. \
BUSY: another run goes on; wait for it by block_id, or io write key=ctrl_c. \
output_truncated: the middle was left out; io read from cursor has it. \
waiting_for_input: answer by io write, or by responses beforehand."""

_IO = """\
write types data or presses key; read returns what arrived. Read on from each reply's next_cursor, also a write's; \
wait with until_regex or until_idle_ms, and timeout_ms. Secrets: sensitive=true.
Patterns are RE2: ^ is the cursor, $ the end of what has arrived, (?m) makes them lines.
mode=screen: what a person would see (vim, less, menus); until_regex and until_idle_ms look at the rows.
truncated: dropped_bytes are lost to this buffer; re-sync with mode=tail. eof: the far end ended."""

_CONFIG = """\
resize a session's terminal; set the RE2 patterns (expect) that tell its prompt, pager and errors, or its CLI mode; \
get shows them."""

TOOLS = (
    Tool(
        "ptyctl_session", "Terminal sessions and locks", _SESSION, SessionRequest, SessionReply, METHODS["ptyctl_session"].call
    ),
    Tool(
        "ptyctl_session_exec", "Run a command in a terminal", _EXEC, ExecRequest, ExecReply, METHODS["ptyctl_session_exec"].call
    ),
    Tool("ptyctl_session_io", "Type into a terminal, read from it", _IO, IoRequest, IoReply, METHODS["ptyctl_session_io"].call),
    Tool(
        "ptyctl_session_config",
        "Terminal size and prompt patterns",
        _CONFIG,
        ConfigRequest,
        ConfigReply,
        METHODS["ptyctl_session_config"].call,
        destructive=False,
        idempotent=True,
    ),
)
