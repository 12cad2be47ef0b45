"""The tools: their descriptions and schemas for clients, their Controller calls, and the toolsets of `--toolsets`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ptyctl.api import (
    ApprovalsReply,
    ConfigReply,
    ExecReply,
    IoReply,
    PtyctlError,
    PtyReply,
    PtyRequest,
    SessionReply,
    blocks,
    pty,
    screen,
)
from ptyctl.api.methods import METHODS, Call, Method
from ptyctl.api.model import Reply, Request

from .terminal_tool import TerminalCall, TerminalResponse, call_terminal

#: Reply fields of every tool that reports errors in its reply.
_STATUS_FIELDS = ("ok", "error", "message", "hint")
#: Reply fields of every pty_* tool.
_PTY_FIELDS = ("notices", "mode", "active_block_id", "lock_holder")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of the server.

    Attributes:
        read_only, destructive, idempotent: the hints of MCP's ToolAnnotations. openWorldHint is always true, because every
            tool may reach a device.
        reply_fields: the fields of `reply` that this tool fills; None for all.
        encode_error: makes the reply to an error (`ok` false); None if errors are MCP errors (`isError`).
        method: its request and call, if it is not the Controller's method of the same name.
    """

    name: str
    title: str
    description: str
    reply: type[Reply]
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    reply_fields: tuple[str, ...] | None = None
    encode_error: Callable[[PtyctlError], Reply] | None = None
    method: Method | None = None

    @property
    def request(self) -> type[Request]:
        return (self.method or METHODS[self.name]).request

    @property
    def call(self) -> Call:
        return (self.method or METHODS[self.name]).call


def pty_tool(
    request: type[PtyRequest],
    title: str,
    description: str,
    reply_fields: str = "",
    *,
    reply: type[Reply] = PtyReply,
    read_only: bool = False,
    destructive: bool = True,
    idempotent: bool = False,
) -> Tool:
    """Return a pty_*, blocks_* or screen tool, which reports errors in its reply. `reply_fields` is separated by spaces."""
    common = _PTY_FIELDS if reply is PtyReply else ("notices",)
    return Tool(
        request.TOOL,
        title,
        description,
        reply,
        read_only=read_only,
        destructive=destructive and not read_only,
        idempotent=idempotent or read_only,
        reply_fields=tuple(dict.fromkeys((*_STATUS_FIELDS, *reply_fields.split(), *common))),
        encode_error=pty.encode_error,
    )


# The core descriptions teach an agent the workflow. A test limits the size of the four definitions to 8 KB.

_SESSION = """\
Open, share, list and close terminals that persist between calls: local shells, SSH hosts, Telnet/SSH device consoles.
Workflow: open; ptyctl_session_io read mode=tail once; ptyctl_session_exec, or io write with a wait; close.
A console (session_type=console, device_id) is one session shared by all clients. Writing needs its lock: \
lock with task_id, heartbeat at half of lock_ttl_ms (60000), unlock when done. Reading does not.
LOCKED: another task has it; keep reading, lock later. LOCK_REQUIRED: lock first. \
LOCK_LOST: yours ended; lock again, read what happened since."""

_EXEC = """\
Run a command and get its output: cmd, lines or block_id. exit_code is null if the far end has none.
done_reason approval: a person must allow it; tell your user, call again with block_id.
timed_out: call again with block_id and from_cursor=next_cursor. \
BUSY: another command runs; wait by block_id, or io write key=ctrl_c. \
output_truncated: use grep, or io read mode=history from the cursor in the gap. \
waiting_for_input: answer by io write, or by responses in the call."""

_IO = """\
write types data or presses key; with until_regex, until_any, until_idle_ms or timeout_ms it also waits and returns the \
response. read returns output from next_cursor of the last reply. Secrets: sensitive=true.
Patterns are RE2: ^ is the cursor, $ the end of the received output, (?m) makes them lines.
mode=screen: what a person would see (vim, less, menus); conditions apply to its rows.
truncated: dropped_bytes were left out; mode=history reads them from a cursor.
max_bytes_reached: read on. eof: the far end closed."""

_CONFIG = "Resize a terminal; set its CLI mode or the RE2 patterns (expect) of its prompt, pager and errors; get returns them."

_CORE = (
    Tool("ptyctl_session", "Terminal sessions and locks", _SESSION, SessionReply),
    Tool("ptyctl_session_exec", "Run a command in a terminal", _EXEC, ExecReply),
    Tool("ptyctl_session_io", "Type into a terminal, read from it", _IO, IoReply),
    Tool(
        "ptyctl_session_config", "Terminal size and prompt patterns", _CONFIG, ConfigReply, destructive=False, idempotent=True
    ),
)

_BLOCK_FIELDS = "block_id resume_cursor"
_MATCH_FIELDS = "matched match_text match_cursor match_span resume_cursor extra"

# A shell for each conversation, and one cursor through its output.
_PTY = (
    pty_tool(
        pty.PtyExecBlock,
        "Start a command",
        "Run a command in the conversation's own shell (created on first use) or in any session_id. With wait_ms: data and "
        "exit_code once it ends. Without: pty_wait_prompt from resume_cursor, then blocks_read.",
        f"{_BLOCK_FIELDS} seq ts data omitted_bytes complete exit_code waiting_for_input cursor",
    ),
    pty_tool(
        pty.PtyExecInteractive,
        "Start an interactive program",
        "Start a program that asks questions: pty_expect_send each from resume_cursor; pty_wait_prompt at its end.",
        f"{_BLOCK_FIELDS} session_id ts_begin",
    ),
    pty_tool(
        pty.PtyExecInteractiveExpect,
        "Run a whole dialogue",
        "Start a program, answer its questions in order (\\n is Enter), wait for its end. failed_step, screen: where it stops.",
        f"{_BLOCK_FIELDS} session_id exit_reason failed_step exit_code screen",
    ),
    pty_tool(
        pty.PtyWaitFor,
        "Wait for output",
        "Wait for a substring, RE2 regex, prompt or eof from from_cursor; continue from resume_cursor. Echo is output too.",
        _MATCH_FIELDS,
        read_only=True,
    ),
    pty_tool(
        pty.PtyWaitPrompt,
        "Wait for the prompt",
        "Wait until the command has ended; extra.exit_code.",
        _MATCH_FIELDS,
        read_only=True,
    ),
    pty_tool(
        pty.PtyExpectSend,
        "Wait, then send",
        "Wait for text, then send at once.",
        f"{_MATCH_FIELDS} sent",
    ),
    pty_tool(
        pty.PtySend,
        "Type",
        "Type data (\\n is Enter) or press key: up, f1, ctrl_c ...",
    ),
    pty_tool(pty.PtyCtrlC, "Press Ctrl-C", "Interrupt."),
    pty_tool(pty.PtyCtrlD, "Press Ctrl-D", "End of input; ends an idle shell."),
    pty_tool(pty.PtyEnter, "Press Enter", "Press Enter."),
    pty_tool(
        pty.PtyReadSpool,
        "Read the output",
        "Output as text from any cursor; 0 is the start.",
        "data cursor resume_cursor",
        read_only=True,
    ),
    pty_tool(
        pty.PtyStatus,
        "Get the state",
        "Mode, active block, end of the output.",
        "mode active_session_id active_block_id shell_id resume_cursor",
        read_only=True,
    ),
    pty_tool(
        pty.PtyEndSession,
        "End the running program",
        "End the program by Ctrl-C, with force by a kill.",
        "ended mode resume_cursor",
    ),
    pty_tool(
        pty.PtyReset,
        "Start a new shell",
        "Replace a shell that hangs; history and cursors stay.",
        "session_id incarnation state resume_cursor",
    ),
    pty_tool(pty.PtyResize, "Resize", "Set the size.", "cols rows", destructive=False, idempotent=True),
    pty_tool(
        pty.PtyClose,
        "Close the terminal",
        "End the terminal; its output stays readable.",
        idempotent=True,
    ),
)

_BLOCKS = (
    pty_tool(
        blocks.BlocksSince,
        "List commands",
        "Commands that began or ended since cursor (counts changes), or the last N.",
        "items resume_cursor",
        reply=blocks.BlocksReply,
        read_only=True,
    ),
    pty_tool(blocks.BlocksGet, "One block", "The record of one block.", "block", reply=blocks.BlocksReply, read_only=True),
    pty_tool(
        blocks.BlocksRead,
        "Read a block's output",
        "A command's clean output; page with offset=resume_offset until complete.",
        "data data_b64 offset resume_offset size complete",
        reply=blocks.BlocksReply,
        read_only=True,
    ),
    pty_tool(
        blocks.BlocksSearch,
        "Search all output",
        "Output lines that contain query (regex: RE2). truncated: continue with from_cursor=resume_cursor.",
        "hits truncated resume_cursor",
        reply=blocks.BlocksReply,
        read_only=True,
    ),
)

_SCREEN = (
    pty_tool(
        screen.PtyReadScreen,
        "Read the screen",
        "Rows and cursor (from 0) of the screen: now, at an earlier time, or once a condition holds.",
        "rows cursor cursor_visible title alt_screen cols rows_count ts raw_offset matched idle_reached timed_out attributes",
        reply=screen.ScreenReply,
        read_only=True,
    ),
    pty_tool(
        screen.PtyReadScreenDeltas,
        "Watch the screen",
        "Rows that changed since cursor; the first call starts recording.",
        "deltas cursor resume_cursor",
        reply=screen.DeltasReply,
        read_only=True,
    ),
    pty_tool(
        screen.PtyScreenStatus,
        "Screen status",
        "Title, size, cursor, alt_screen.",
        "cursor title alt_screen rows cols position",
        reply=screen.ScreenStatusReply,
        read_only=True,
    ),
    pty_tool(
        screen.PtyReadScrollback,
        "Read the scrollback",
        "Latest lines that scrolled off the top.",
        "lines",
        reply=screen.ScrollbackReply,
        read_only=True,
    ),
    pty_tool(
        screen.PtyReadRaw,
        "Read the raw bytes",
        "Received bytes with escape sequences.",
        "data_b64 offset resume_offset raw_size",
        reply=screen.RawReply,
        read_only=True,
    ),
)

_APPROVALS = (
    Tool(
        "ptyctl_approvals",
        "Your approval requests",
        "What you typed that waits for a person's approval, or did. get: one of them.",
        ApprovalsReply,
        read_only=True,
        destructive=False,
        idempotent=True,
    ),
)

_TERMINAL = (
    Tool(
        "memory_terminal_interactive",
        "Run commands in shared terminals",
        "Run commands headless, or in interactive terminals that people see.",
        TerminalResponse,
        method=Method(TerminalCall, call_terminal),
    ),
)

TOOLSETS: Mapping[str, tuple[Tool, ...]] = {
    "core": _CORE,
    "pty": _PTY,
    "blocks": _BLOCKS,
    "screen": _SCREEN,
    "approvals": _APPROVALS,
    "terminal": _TERMINAL,
}
DEFAULT = "core"
ALL = "all"
#: Not part of `all`: a separate contract, for callers that are written for it.
TERMINAL = "terminal"


def choose(names: str) -> tuple[Tool, ...]:
    """Return the tools of a comma-separated list of toolsets, each once, in the order of TOOLSETS.

    `all` selects all but `terminal`.

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
    if ALL in selected:
        selected |= TOOLSETS.keys() - {TERMINAL}
    return tuple(tool for name, tools in TOOLSETS.items() if name in selected for tool in tools)
