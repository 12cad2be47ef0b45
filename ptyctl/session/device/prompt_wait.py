"""Waits for the prompt of a terminal in which an unknown program runs and no command was typed.

A line that is repeated after Enter counts as a prompt, and so does a line in which a line editor reads. `DeviceCli` has other
rules for a known device: only the platform's prompts count, pagers are answered or quit, and log lines may follow the prompt.
"""

from __future__ import annotations

from math import inf

from ptyctl.platforms import DeviceProfile
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.terminal_state import SETTLE_S, TerminalState

from .exchange import OTHER_HOST_SETTLE_S
from .prompt_guard import PromptGuard

#: How long a shell or a device may take to show its first prompt (seconds).
FIRST_PROMPT_WAIT_S = 5.0
#: Silence after which Enter is pressed, so that the prompt is shown again within `_REPLY_S` (seconds).
_IDLE_REQUEST_AFTER_S = 0.5
_REPLY_S = 5.0


async def wait_for_prompt(
    terminal: TerminalState, profile: DeviceProfile, deadline: float, writer: Writer | None, quiet_s: float = inf
) -> bool:
    """Wait until the output ends in a prompt, and learn it. In a silent terminal `writer`, if given, presses Enter once.

    A line that is repeated after Enter counts as a prompt. Text after the prompt is cleared. Enter is not pressed after a line
    of a user, which may have led to a question of any form.

    Returns:
        False if no prompt was shown before the deadline or within `quiet_s` (seconds) after other output, and at a question
        (a login, a confirmation), which is not answered.

    Raises:
        PtyctlError: BUSY if typed text cannot be cleared; before Enter also at a pager or in a full-screen program.
    """
    stream, requested, guard = terminal.stream, False, PromptGuard(terminal, profile)
    line_before, line_feeds = "", stream.line_feeds
    begin = terminal.now()
    if guard.typed_ahead:
        await guard.clear_typed_ahead(deadline)
    typed = terminal.unfinished_line
    entered_raw = typed.entered_raw
    await guard.answer_received()

    def found() -> bool:
        if typed.empty:
            typed.answered()
        return True

    while stream.ended is None and terminal.now() < deadline:
        if not typed.empty:
            await guard.clear_device_line()
        line = terminal.last_line()
        certainty = terminal.prompt_certainty(profile)
        if certainty == "editor" and entered_raw >= 0 and not terminal.line_editor_began_since(entered_raw):
            certainty = None  # fish still edits an incomplete command
        if certainty == "wait" and entered_raw >= 0:
            certainty = None  # the shell may wait for the next line of an incomplete command
        if certainty == "exact":
            return found()
        due = stream.last_data + (OTHER_HOST_SETTLE_S if certainty == "other_host" else SETTLE_S)
        shown_again = line_before.strip() and line == line_before and stream.line_feeds > line_feeds
        if certainty in ("regex", "other_host") or (
            not profile.asks(line) and (certainty in ("editor", "wait") or shown_again)
        ):
            if terminal.now() >= due:
                terminal.learn_prompt(line)
                return found()
        elif profile.asks(line):
            return False
        else:
            due = (stream.last_data or begin) + _IDLE_REQUEST_AFTER_S
            if terminal.now() >= due:
                may_be_asked = guard.follows_users_line
                if may_be_asked and profile.may_ask(line):
                    return False
                if not (requested or may_be_asked):
                    requested = True
                    guard.refuse_other()
                    if not await guard.clear_device_line() and writer is not None:
                        line_before, line_feeds = terminal.last_line(), stream.line_feeds
                        await terminal.gate.type("\n", writer)
                        deadline = min(deadline, terminal.now() + _REPLY_S)
                    continue
                printed = stream.raw_size > stream.incarnation_raw
                due = min(deadline, stream.last_data + quiet_s) if printed else deadline
                if terminal.now() >= due:
                    return False
        await stream.wait(min(due, deadline))
    return False
