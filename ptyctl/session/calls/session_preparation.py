"""Prepares a session after its channel has opened: logs in, detects the platform, turns paging off, widens the terminal."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ptyctl.api.errors import PtyctlError
from ptyctl.api.session import Expect
from ptyctl.platforms import COMMON, CommandSequence, Platform, Platforms
from ptyctl.session.device.device_cli import DeviceCli
from ptyctl.session.device.login import log_in
from ptyctl.session.device.modes import walk_home
from ptyctl.session.device.platform_detection import (
    AUTO,
    any_platform,
    detect,
    detect_by_banner,
    format_detected,
    load_platform,
)
from ptyctl.session.device.prompt_wait import FIRST_PROMPT_WAIT_S, wait_for_prompt
from ptyctl.session.io.gate import SYSTEM
from ptyctl.session.session import Session


async def prepare(session: Session, platforms: Platforms) -> None:
    """Log in with the session's credentials, if any, and set `session.login_notice`.

    Raises:
        PtyctlError: AUTH_FAILED, CONNECT_FAILED, CONNECT_TIMEOUT, REMOTE_CLOSED.
    """
    has_login, detects = bool(session.credentials.layers), session.spec.platform == AUTO
    if not has_login and not detects:
        await restore_platform(session, platforms)
        return
    notices: list[str] = []
    sets_up = has_login and session.credentials.prepare
    async with session.runs.reserved("its login"):  # at once: the session is open, and may be typed into
        await restore_platform(session, platforms)
        if detects:
            await asyncio.to_thread(platforms.all)
        if has_login:
            server = await load_platform(platforms, COMMON)
            platform = _login_platform(session, platforms) if detects else session.platform or server
            new_terminal = session.spec.protocol == "ssh" and not session.spec.console
            done = await log_in(session.terminal, platform, server, session.credentials, new_terminal=new_terminal)
            if done.kind == "done":
                session.prompt.learn(session.terminal.last_line())
            sets_up = sets_up and (detects or done.mode is not None)
            notices += [done.why] if done.why else []
        if detects:
            notices.append(await _detect_platform(session, platforms))
        if sets_up:
            notices += await _set_up_terminal(session)
    session.set_login_notice("; ".join(notices) or None)


async def restore_platform(session: Session, platforms: Platforms) -> None:
    """Load the platform of a restored session. The next open reports a faulty file."""
    name = session.spec.platform
    if session.platform is None and name not in (None, AUTO):
        with suppress(PtyctlError):
            session.set_platform(await load_platform(platforms, name))


def merged_expect(given: Expect, platform: Platform) -> Expect:
    """Return the platform's patterns, overridden by those of a request. The prompt of a POSIX shell is learned instead."""
    return given if platform.posix_shell else platform.expect().replaced_by(given)


def _login_platform(session: Session, platforms: Platforms) -> Platform:
    """Return the platform that the banner indicates; without one, a platform with the login questions of all families."""
    detected = detect_by_banner(session.terminal, platforms)
    return platforms.get(detected.family) if detected.family is not None and detected.sure else any_platform(platforms)


async def _detect_platform(session: Session, platforms: Platforms) -> str:
    """Detect the platform at the prompt, or by the banner alone without one, or at a menu's; the notice about it."""
    terminal = session.terminal
    detected = detect_by_banner(terminal, platforms)
    is_menu = terminal.last_line().rstrip().endswith(":")
    if not is_menu and await wait_for_prompt(terminal, session.profile(), terminal.now() + FIRST_PROMPT_WAIT_S, SYSTEM):
        detected = await detect(terminal, platforms, DeviceCli(terminal, platforms.get(COMMON)))
    name = detected.family if detected.family is not None and detected.sure else COMMON
    platform = platforms.get(name)
    session.adopt_platform(name, platform, merged_expect(session.expect, platform))
    return format_detected(detected)


async def _set_up_terminal(session: Session) -> list[str]:
    """Change to the home mode, and type the platform's terminal commands. Return notices about failures.

    Terminal commands that the device refuses are not reported: pagers are answered, and wrapped echoes are recognised.
    """
    if session.platform is None or session.platform.posix_shell:
        return []
    cli, notices = DeviceCli(session.terminal, session.platform, session.credentials), list[str]()
    if cli.shown() is None and not session.platform.describes_prompts:
        return []
    try:
        await walk_home(cli)
    except PtyctlError as error:
        if cli.closed:
            raise
        notices.append(error.message if error.hint is None else f"{error.message}; {error.hint}")
    shown = cli.shown()
    if shown is None:
        return notices
    terminal = session.platform.terminal
    width = (CommandSequence(commands=(one.command.format(columns=one.columns),), modes=one.modes) for one in terminal.width)
    for sequence in (*terminal.paging_off, *width, *terminal.setup):
        if sequence.modes and shown.mode not in sequence.modes:
            continue
        for command in sequence.commands:
            if (await cli.run(command, sequence.dialog, quit_pager=True)).shown is None:
                await cli.leave_question()
    return notices
