"""The toolset `pty`: the deterministic terminal model, a shell for each conversation and one cursor through its output."""

from __future__ import annotations

from ptyctl.api import pty

from .pty_tool import pty_tool

_CURSOR = "from_cursor: the resume_cursor of the last answer. "
_BEGUN = "block_id resume_cursor"
_MATCH = "matched match_text match_cursor match_span resume_cursor extra"

TOOLS = (
    pty_tool(
        pty.PtyExecBlock,
        "Start a command",
        "Start a command in the conversation's own shell (made on first use; it lives on, with cwd and variables) and return "
        "at once: {block_id, resume_cursor}. Then pty_wait_prompt from resume_cursor, and blocks_read for the clean output. "
        "cwd: cd there first. One command at a time: busy says what runs. "
        "session_id instead of conversation_id takes any open session.",
        f"{_BEGUN} seq ts",
    ),
    pty_tool(
        pty.PtyExecInteractive,
        "Start an interactive program",
        "As pty_exec_block, for a program you talk to (installer, REPL, ssh): pty_wait_for its question, pty_send the answer, "
        "and so on from each resume_cursor; pty_wait_prompt when it ends. Until then no other command may start.",
        f"{_BEGUN} session_id ts_begin",
    ),
    pty_tool(
        pty.PtyExecInteractiveExpect,
        "Run a whole dialogue",
        "Start a program and answer its questions in one call: steps [{expect, send}] in order, then wait for its end. "
        "exit_reason tells how it went; failed_step and screen where it stopped. \\n in send is Enter.",
        f"{_BEGUN} session_id exit_reason failed_step exit_code screen",
    ),
    pty_tool(
        pty.PtyWaitFor,
        "Wait for output",
        "Wait until text (match_type substring), an RE2 regex, the shell's prompt (extra: cwd, ts, exit_code) or eof comes. "
        f"{_CURSOR}No match is skipped; go on from resume_cursor, the match's end. After a timeout it is the spool's end: ask "
        "again with the same from_cursor for a match that may straddle it. The echo of what was typed is output too.",
        _MATCH,
        read_only=True,
    ),
    pty_tool(
        pty.PtyWaitPrompt,
        "Wait for the prompt",
        f"Wait until the shell shows its prompt and is free again: the command has ended, extra.exit_code says how. {_CURSOR}",
        _MATCH,
        read_only=True,
    ),
    pty_tool(
        pty.PtyExpectSend,
        "Wait, then send",
        f"Wait for text and send the answer in the same step: nothing else is typed in between. {_CURSOR}"
        "sensitive: only the length is kept.",
        f"{_MATCH} sent",
    ),
    pty_tool(
        pty.PtySend,
        "Type",
        "Type into the terminal; \\n or \\r is Enter. sensitive: only the length is kept. Read status first for a cursor.",
    ),
    pty_tool(pty.PtyCtrlC, "Press Ctrl-C", "Interrupt what runs; it goes before all that waits to be typed."),
    pty_tool(pty.PtyCtrlD, "Press Ctrl-D", "End of input. At a free prompt it ends the shell."),
    pty_tool(pty.PtyEnter, "Press Enter", "Press Enter alone."),
    pty_tool(
        pty.PtyReadSpool,
        "Read the output",
        f"All output as text, from any cursor, 0 for all there ever was. {_CURSOR}For one command's clean output: blocks_read.",
        "data cursor resume_cursor",
        read_only=True,
    ),
    pty_tool(
        pty.PtyStatus,
        "Is it free?",
        "mode idle (free), block_running or interactive, with the block in the way; resume_cursor is the end of the output.",
        "mode active_session_id active_block_id shell_id resume_cursor",
        read_only=True,
    ),
    pty_tool(
        pty.PtyEndSession,
        "End what runs",
        "End the running program: Ctrl-C, and with force a kill. ended tells which it took; the shell stays.",
        "ended mode resume_cursor",
    ),
    pty_tool(
        pty.PtyReset,
        "Start a new shell",
        "For a wedged terminal: end it, start a new shell in the same session. History and cursors stay; variables are gone.",
        "session_id incarnation resume_cursor",
    ),
    pty_tool(
        pty.PtyResize, "Resize", "Set the terminal's size in characters.", "cols rows", destructive=False, idempotent=True
    ),
    pty_tool(
        pty.PtyClose,
        "Close the terminal",
        "End the conversation's terminal for good; what it said can be read on.",
        idempotent=True,
    ),
)
