"""What follows when a channel has opened, also anew: the login, the family where that is asked for, no more pages."""

from __future__ import annotations

from contextlib import suppress

from ptyctl.api.errors import PtyctlError
from ptyctl.api.session import Expect
from ptyctl.platforms import Commands, Platform, Platforms, Shown
from ptyctl.platforms.loading import COMMON
from ptyctl.session.device.accounts import Account
from ptyctl.session.device.command_line import CommandLine
from ptyctl.session.device.detecting import AUTO, by_banner, detect, of_any_family, told
from ptyctl.session.device.login import log_in
from ptyctl.session.device.modes import walk_home
from ptyctl.session.io.gate import SYSTEM
from ptyctl.session.runs.shell_probe import settled_prompt
from ptyctl.session.session import Session

#: Where nobody logs in, a device gets so long to show a prompt by which its family can be told.
PROMPT_WAIT_S = 5.0


async def arrive(session: Session, families: Platforms) -> None:
    """Logs in with the session's accounts, if it has any. `session.login_notice` then says what its user should know.

    Raises:
        PtyctlError: AUTH_FAILED, CONNECT_FAILED, CONNECT_TIMEOUT, REMOTE_CLOSED.
    """
    remember(session, families)
    wanted, detecting = bool(session.accounts.layers), session.spec.platform == AUTO
    if not wanted and not detecting:
        return
    said: list[str] = []
    async with session.runs.reserved("its login"):
        if wanted:
            server = families.get(COMMON)
            family = _family_at_login(session, families) if detecting else session.platform or server
            done = await log_in(session.terminal, family, server, session.accounts)
            session.terminal.prompt.learn(session.terminal.last_line())
            said += [done.why] if done.why else []
        if detecting:
            said.append(await _find_family(session, families))
        if wanted and session.accounts.prepare:
            said += await _make_ready(session)
    session.set_login_notice("; ".join(said) or None)


def command_line(session: Session, platform: Platform) -> CommandLine:
    """The session's device, with what is known to answer its questions."""
    accounts = session.accounts
    login = accounts.layers[-1] if accounts.layers else Account()
    return CommandLine(session.terminal, platform, accounts.enable_secret, login.password, login.username)


def remember(session: Session, families: Platforms) -> None:
    """What an earlier process has left names its family only; should its file be wrong by now, the next open tells."""
    name = session.spec.platform
    if session.platform is None and name not in (None, AUTO):
        with suppress(PtyctlError):
            session.set_platform(families.get(name))


def adopt(session: Session, name: str, platform: Platform) -> None:
    """The session speaks to this family from now on; what its caller has given stands before it."""
    session.adopt_platform(name, platform, expect_of(session.expect, platform))


def expect_of(given: Expect, platform: Platform) -> Expect:
    """A POSIX shell's prompt may be anything, and is learned."""
    return given if platform.posix_shell else platform.expect().model_copy(update=given.model_dump(exclude_none=True))


def _family_at_login(session: Session, families: Platforms) -> Platform:
    """The family that the banner tells; where it tells none, anybody's questions may come."""
    verdict = by_banner(session.terminal, families)
    return families.get(verdict.family) if verdict.family is not None and verdict.sure else of_any_family(families)


async def _find_family(session: Session, families: Platforms) -> str:
    """Finds the family at the prompt; where there is none, by the banner alone."""
    terminal, general = session.terminal, families.get(COMMON)
    verdict = by_banner(terminal, families)
    if await settled_prompt(terminal, session.expectations(), terminal.now() + PROMPT_WAIT_S, SYSTEM):
        verdict = await detect(terminal, families, CommandLine(terminal, general))
    name = verdict.family if verdict.family is not None and verdict.sure else COMMON
    adopt(session, name, families.get(name))
    return told(verdict)


async def _make_ready(session: Session) -> list[str]:
    """Goes to where commands run, and types what makes output come whole; what did not go, for people.

    What a device refuses of it is not missed: pagers are answered, and echoes compared as a terminal shows them.
    """
    if session.platform is None or session.platform.posix_shell:
        return []
    line, said = command_line(session, session.platform), list[str]()
    try:
        await walk_home(line)
    except PtyctlError as error:
        if line.closed:
            raise
        said.append(error.message)
    shown = line.shown()
    if shown is None:
        return said
    for entry in _typed_once(session.platform, shown):
        for command in entry.commands:
            if (await line.run(command, entry.dialog, quits=True)).shown is None:
                await line.leave()
    return said


def _typed_once(platform: Platform, shown: Shown) -> list[Commands]:
    """What is typed in that mode after a login."""
    terminal = platform.terminal
    wide = (Commands(commands=(one.command.format(columns=one.columns),), modes=one.modes) for one in terminal.width)
    entries = (*terminal.paging_off, *wide, *terminal.setup)
    return [entry for entry in entries if not entry.modes or shown.mode in entry.modes]
