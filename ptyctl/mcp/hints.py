"""Wording of the next steps (`NextStep`) in terms of the tools."""

from __future__ import annotations

from collections.abc import Mapping

from ptyctl.api.errors import NextStep

_CORE_HINTS: Mapping[str, str] = {
    NextStep.TAKE_LOCK: "call ptyctl_session action=lock with your task_id, then repeat the call with it",
    NextStep.RETAKE_LOCK: (
        "call ptyctl_session action=lock with your task_id, and read the output since then with ptyctl_session_io action=read"
    ),
    NextStep.WAIT_FOR_LOCK: "read without a lock, or wait for it with ptyctl_session action=lock and wait_ms",
    NextStep.INTERRUPT_OR_WAIT: (
        "wait for it with ptyctl_session_exec and its block_id, or interrupt it with ptyctl_session_io action=write key=ctrl_c"
    ),
    NextStep.ANSWER_OR_INTERRUPT: "answer or interrupt it with ptyctl_session_io action=write, data or key=ctrl_c",
    NextStep.WAIT_FOR_PROMPT: "wait for the prompt with ptyctl_session_io action=read and until_regex",
    NextStep.RUN_WITH_RESPONSES: "run the device's own command with ptyctl_session_exec and responses",
    NextStep.LEAVE_PAGER: "quit the pager with ptyctl_session_io action=write data=q, then repeat the call",
    NextStep.LEAVE_QUESTION: (
        "answer the question with ptyctl_session_io action=write, or leave it with key=ctrl_c, then repeat the call"
    ),
    NextStep.LEAVE_TEXT: "end the text with ptyctl_session_io action=write, or leave it with key=ctrl_c, then repeat the call",
    NextStep.LEAVE_EDITOR: (
        "read the screen with ptyctl_session_io action=read mode=screen, and leave the program with action=write, "
        "then repeat the call"
    ),
    NextStep.LEAVE_UNFINISHED: (
        "leave the unfinished command with ptyctl_session_io action=write key=ctrl_c, then send all of it in one write"
    ),
    NextStep.AWAIT_ANSWER: "repeat the call with the approval_id to wait for the answer",
    NextStep.FIND_APPROVER: (
        "nobody who may answer is connected: report it to your user, then repeat the call with the approval_id"
    ),
    NextStep.RETYPE_LINE: ("type the whole command in one ptyctl_session_io action=write, without Tab, history or cursor keys"),
    NextStep.CLEAR_LINE: (
        "read the screen with ptyctl_session_io action=read mode=screen, and delete the line with action=write key=ctrl_u or "
        "ctrl_c, then repeat the call"
    ),
    NextStep.FIND_PROMPT: (
        "read the screen with ptyctl_session_io action=read mode=screen; wait for the prompt with until_regex, "
        "or type what the program expects with action=write"
    ),
    NextStep.CHECK_SHELL: (
        "read the screen with ptyctl_session_io action=read mode=screen; "
        "repeat the call if the command is for the shell that reads now"
    ),
    NextStep.SEND_ENTER: "press Enter with ptyctl_session_io action=write key=enter",
    NextStep.RESET_TERMINAL: "close the session with ptyctl_session action=close force=true, and open a new one",
    NextStep.READ_OUTPUT: "read the output with ptyctl_session_io action=read",
    NextStep.READ_SCREEN: "read the screen with ptyctl_session_io action=read mode=screen",
    NextStep.READ_STATE: "get the session's state with ptyctl_session action=status before you repeat the call",
    NextStep.LIST_SESSIONS: "list the sessions with ptyctl_session action=list",
    NextStep.LIST_BLOCKS: "list the blocks with blocks_since (toolset blocks)",
    NextStep.OPEN_CONVERSATION: "open the terminal with pty_exec_block or pty_send",
    NextStep.OPEN_SESSION: "open a new session with ptyctl_session action=open; ptyctl_session_io can still read this one",
    NextStep.CLOSE_SESSIONS: "close sessions that are not used: ptyctl_session action=list, then action=close",
}

#: Steps for which the pty_*, blocks_* and screen tools have their own tool.
_PTY_HINTS: Mapping[str, str] = {
    **_CORE_HINTS,
    NextStep.INTERRUPT_OR_WAIT: "wait for it with pty_wait_prompt, or interrupt it with pty_ctrl_c",
    NextStep.ANSWER_OR_INTERRUPT: "answer it with pty_send, or interrupt it with pty_ctrl_c",
    NextStep.WAIT_FOR_PROMPT: "wait for the prompt with pty_wait_prompt",
    NextStep.RUN_WITH_RESPONSES: "run the device's own command with pty_exec_interactive_expect",
    NextStep.LEAVE_PAGER: "quit the pager with pty_send data=q, then repeat the call",
    NextStep.LEAVE_QUESTION: "answer the question with pty_send, or leave it with pty_ctrl_c, then repeat the call",
    NextStep.LEAVE_TEXT: "end the text with pty_send, or leave it with pty_ctrl_c, then repeat the call",
    NextStep.LEAVE_EDITOR: "read the screen with pty_read_screen, and leave the program with pty_send, then repeat the call",
    NextStep.RETYPE_LINE: "type the whole command in one pty_send, without Tab, history or cursor keys",
    NextStep.LEAVE_UNFINISHED: "leave the unfinished command with pty_ctrl_c, then send all of it in one pty_send",
    NextStep.CLEAR_LINE: "delete the typed line with pty_send key=ctrl_u or ctrl_c, then repeat the call",
    NextStep.FIND_PROMPT: "read the screen with pty_read_screen; type what the program expects with pty_send",
    NextStep.CHECK_SHELL: "read the screen with pty_read_screen; repeat the call if the command is for this shell",
    NextStep.SEND_ENTER: "press Enter with pty_enter",
    NextStep.RESET_TERMINAL: "reset the terminal with pty_reset",
    NextStep.READ_OUTPUT: "read the output with pty_read_spool",
    NextStep.READ_SCREEN: "read the screen with pty_read_screen (toolset screen)",
    NextStep.READ_STATE: "get the state with pty_status before you repeat the call",
    NextStep.OPEN_SESSION: (
        "open a conversation's terminal again with pty_exec_block or pty_send, another session with ptyctl_session "
        "action=open; pty_read_spool can still read this one"
    ),
}


def format_hint(hint: str, *, pty: bool) -> str:
    """Return the text of a `NextStep` for the pty_* tools or the ptyctl_* tools; return any other hint unchanged."""
    return (_PTY_HINTS if pty else _CORE_HINTS).get(hint, hint)
