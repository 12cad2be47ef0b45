"""All tools, in the toolsets that a server chooses from with `--toolsets`."""

from __future__ import annotations

from collections.abc import Mapping

from ptyctl.api import ConfigReply, ExecReply, IoReply, SessionReply, blocks, pty, screen

from .tool import Tool, pty_tool

# The core descriptions teach an agent the workflow. A test limits the size of the four definitions to 8 KB.

_SESSION = """\
Open, share, list and close terminals that persist between calls: local shells, SSH hosts, Telnet/SSH device consoles.
Workflow: open; ptyctl_session_io read mode=tail once; ptyctl_session_exec, or io write and read; close.
A console (session_type=console, device_id) is one session shared by all clients. Writing needs its lock: \
lock with task_id, heartbeat at half of lock_ttl_ms (60000), unlock when done. Reading does not.
LOCKED: another task has it; keep reading, lock later. LOCK_REQUIRED: lock first. \
LOCK_LOST: yours ended; lock again, read what happened since."""

_EXEC = """\
Run a command in a session and get its output: give cmd, or lines, or block_id. exit_code is null if the far end has none.
timed_out: it still runs; call again with its block_id instead of cmd. \
BUSY: another command runs; wait by block_id, or io write key=ctrl_c. \
output_truncated: the middle is missing; io read mode=history from the cursor in the gap has it. \
waiting_for_input: answer by io write, or by responses in the call."""

_IO = """\
write types data or presses key; read returns output. Continue from each reply's next_cursor, also after a write; \
wait with until_regex or until_idle_ms, and timeout_ms. Secrets: sensitive=true.
Patterns are RE2: ^ is the cursor, $ the end of the received output, (?m) makes them lines.
mode=screen: what a person would see (vim, less, menus); until_regex and until_idle_ms apply to its rows.
truncated: dropped_bytes have left the buffer; mode=history reads them from a cursor.
max_bytes_reached: read on. eof: the far end closed."""

_CONFIG = """\
resize a session's terminal; set its CLI mode, or the RE2 patterns (expect) that recognize its prompt, pager and errors; \
get returns them."""

_CORE = (
    Tool("ptyctl_session", "Terminal sessions and locks", _SESSION, SessionReply),
    Tool("ptyctl_session_exec", "Run a command in a terminal", _EXEC, ExecReply),
    Tool("ptyctl_session_io", "Type into a terminal, read from it", _IO, IoReply),
    Tool(
        "ptyctl_session_config", "Terminal size and prompt patterns", _CONFIG, ConfigReply, destructive=False, idempotent=True
    ),
)

_CURSOR = "from_cursor: resume_cursor of the last reply. "
_BLOCK_FIELDS = "block_id resume_cursor"
_MATCH_FIELDS = "matched match_text match_cursor match_span resume_cursor extra"

# A shell for each conversation, and one cursor through its output.
_PTY = (
    pty_tool(
        pty.PtyExecBlock,
        "Start a command",
        "Start a command in the conversation's own shell and return at once: {block_id, resume_cursor}. The shell is created "
        "on first use and persists, with cwd and variables. Then pty_wait_prompt from resume_cursor, and blocks_read for the "
        "clean output. cwd: change directory first. One command at a time: busy names the running one. "
        "session_id instead of conversation_id takes any open session.",
        f"{_BLOCK_FIELDS} seq ts",
    ),
    pty_tool(
        pty.PtyExecInteractive,
        "Start an interactive program",
        "Like pty_exec_block, for a program that asks questions (installer, REPL, ssh): pty_wait_for a question, pty_send the "
        "answer, and so on from each resume_cursor; pty_wait_prompt when it ends. No other command can start until then.",
        f"{_BLOCK_FIELDS} session_id ts_begin",
    ),
    pty_tool(
        pty.PtyExecInteractiveExpect,
        "Run a whole dialogue",
        "Start a program and answer its questions in one call: steps [{expect, send}] in order, then wait for its end. "
        "exit_reason is the outcome; failed_step and screen show where it stopped. \\n in send is Enter.",
        f"{_BLOCK_FIELDS} session_id exit_reason failed_step exit_code screen",
    ),
    pty_tool(
        pty.PtyWaitFor,
        "Wait for output",
        "Wait for text (match_type substring), an RE2 regex, the shell's prompt (extra: cwd, ts, exit_code) or eof. "
        f"{_CURSOR}No match is skipped; continue from resume_cursor, the end of the match. After a timeout it is the end of "
        "the spool: to find a match that crosses it, repeat with the same from_cursor. The echo of typed text is output too.",
        _MATCH_FIELDS,
        read_only=True,
    ),
    pty_tool(
        pty.PtyWaitPrompt,
        "Wait for the prompt",
        f"Wait until the shell shows its prompt and is idle: the command has ended with extra.exit_code. {_CURSOR}",
        _MATCH_FIELDS,
        read_only=True,
    ),
    pty_tool(
        pty.PtyExpectSend,
        "Wait, then send",
        f"Wait for text and send the answer in one step: nothing else is typed in between. {_CURSOR}"
        "sensitive: only the length is recorded.",
        f"{_MATCH_FIELDS} sent",
    ),
    pty_tool(
        pty.PtySend,
        "Type",
        "Type into the terminal; \\n or \\r is Enter. sensitive: only the length is recorded. "
        "Call pty_status first for a cursor.",
    ),
    pty_tool(pty.PtyCtrlC, "Press Ctrl-C", "Interrupt the running command, ahead of any input that waits to be typed."),
    pty_tool(pty.PtyCtrlD, "Press Ctrl-D", "End of input. At an idle prompt it ends the shell."),
    pty_tool(pty.PtyEnter, "Press Enter", "Press Enter."),
    pty_tool(
        pty.PtyReadSpool,
        "Read the output",
        f"All output as text, from any cursor; 0 is the start. {_CURSOR}For the clean output of one command: blocks_read.",
        "data cursor resume_cursor",
        read_only=True,
    ),
    pty_tool(
        pty.PtyStatus,
        "Get the state",
        "mode: idle, block_running or interactive, with the active block; resume_cursor is the end of the output.",
        "mode active_session_id active_block_id shell_id resume_cursor",
        read_only=True,
    ),
    pty_tool(
        pty.PtyEndSession,
        "End the running program",
        "End the running program with Ctrl-C, and with force by a kill. ended says which was needed; the shell stays.",
        "ended mode resume_cursor",
    ),
    pty_tool(
        pty.PtyReset,
        "Start a new shell",
        "For a terminal that hangs: end it and start a new shell in the same session. History and cursors stay; variables are "
        "lost.",
        "session_id incarnation resume_cursor",
    ),
    pty_tool(
        pty.PtyResize, "Resize", "Set the terminal's size in characters.", "cols rows", destructive=False, idempotent=True
    ),
    pty_tool(
        pty.PtyClose,
        "Close the terminal",
        "End the conversation's terminal; its output can still be read until the next command opens a new one.",
        idempotent=True,
    ),
)

_BLOCKS = (
    pty_tool(
        blocks.BlocksSince,
        "List commands",
        "Blocks (one command each: cmd, cwd, status, exit_code, times) that began or ended since cursor, 0 for all; continue "
        "from resume_cursor, which counts blocks, not bytes.",
        "items resume_cursor",
        reply=blocks.BlocksReply,
        read_only=True,
    ),
    pty_tool(blocks.BlocksGet, "One block", "The record of one block.", "block", reply=blocks.BlocksReply, read_only=True),
    pty_tool(
        blocks.BlocksRead,
        "Read a block's output",
        "The output of one command as text, as a terminal would finally show it: without echo, prompt, colours and redraws; "
        "or format raw. Page with offset = resume_offset until complete. A running block can be read too.",
        "data data_b64 offset resume_offset size complete",
        reply=blocks.BlocksReply,
        read_only=True,
    ),
    pty_tool(
        blocks.BlocksSearch,
        "Search all output",
        "Lines of output that contain query (a substring, or with regex an RE2 pattern; ^ and $ are line anchors), in one "
        "block or all; filter by cmd, status and time. A hit has its block, line and offset in the spool (a cursor for "
        "pty_read_spool).",
        "hits truncated",
        reply=blocks.BlocksReply,
        read_only=True,
    ),
)

_SCREEN = (
    pty_tool(
        screen.PtyReadScreen,
        "Read the screen",
        "The rows on the terminal's screen now, with the cursor (0-based), for full-screen programs (vim, less). "
        "at: the screen at that time. To wait for something to appear: ptyctl_session_io read mode=screen with until_regex or "
        "until_idle_ms.",
        "rows cursor cursor_visible title alt_screen cols rows_count ts raw_offset attributes",
        reply=screen.ScreenReply,
        read_only=True,
    ),
    pty_tool(
        screen.PtyReadScreenDeltas,
        "Watch the screen",
        "The rows that changed since cursor, at most 20 changes a second; continue from resume_cursor. The first call starts "
        "recording and returns all rows; recording stops some time after the last call.",
        "deltas cursor resume_cursor",
        reply=screen.DeltasReply,
        read_only=True,
    ),
    pty_tool(
        screen.PtyScreenStatus,
        "Screen status",
        "Title, size, position of the cursor, and whether a full-screen program is active (alt_screen); cursor: the end of the "
        "deltas.",
        "cursor title alt_screen rows cols position",
        reply=screen.ScreenStatusReply,
        read_only=True,
    ),
    pty_tool(
        screen.PtyReadScrollback,
        "Read the scrollback",
        "The latest lines that scrolled off the top of the screen, oldest first.",
        "lines",
        reply=screen.ScrollbackReply,
        read_only=True,
    ),
    pty_tool(
        screen.PtyReadRaw,
        "Read the raw bytes",
        "Every received byte, including escape sequences, for replay and debugging; page with from_offset = resume_offset.",
        "data_b64 offset resume_offset raw_size",
        reply=screen.RawReply,
        read_only=True,
    ),
)

TOOLSETS: Mapping[str, tuple[Tool, ...]] = {"core": _CORE, "pty": _PTY, "blocks": _BLOCKS, "screen": _SCREEN}
DEFAULT = "core"
ALL = "all"


def choose(names: str) -> tuple[Tool, ...]:
    """Return the tools of a comma-separated list of toolsets, each once, in the order of TOOLSETS. `all` selects all.

    Raises:
        ValueError: a name is unknown, or the list is empty.
    """
    selected = {name.strip() for name in names.split(",")} - {""}
    available = f"available: {', '.join([*TOOLSETS, ALL])}"
    unknown = sorted(selected - {*TOOLSETS, ALL})
    if unknown:
        raise ValueError(f"no toolset {', '.join(map(repr, unknown))}; {available}")
    if not selected:
        raise ValueError(f"--toolsets is empty; {available}")
    return tuple(tool for name, tools in TOOLSETS.items() if name in selected or ALL in selected for tool in tools)
