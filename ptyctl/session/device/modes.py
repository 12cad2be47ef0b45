"""The way from one mode of a device to another, and the platform's save (CONTRACTS, ptyctl_session_config)."""

from __future__ import annotations

from collections.abc import Callable

from ptyctl.api.errors import ErrorCode, PtyctlError, unsupported
from ptyctl.platforms import Commands, Shown, Step
from ptyctl.platforms.pattern import any_matches

from .command_line import CommandLine, Said

#: So long nothing may come while a device saves or commits: some take their time, and say nothing meanwhile.
SAVING_S = 45.0
#: Called before each command: raises PtyctlError where the one who wants it may not type (any more).
May = Callable[[], object]


async def walk(line: CommandLine, target: str, may: May) -> Shown:
    """Goes to a mode by the fewest moves; the prompt that is there then.

    Raises:
        PtyctlError: UNSUPPORTED for a mode that is not known, naming those that are; AUTH_FAILED for a secret that was refused
            or is not known; POLICY_DENIED for a question that only the caller may answer; IO_ERROR where the device did not go.
            `details.mode` is the mode that it is in then.
    """
    line.graph.path(target, target)  # an unknown mode is told before anything is typed
    shown = await line.prompt()
    for step in line.graph.path(shown.mode, target):
        shown = await _take(line, step, may)
    return shown


async def walk_home(line: CommandLine) -> Shown:
    """Goes to where commands run, if all that may be asked on the way is known."""
    shown = await line.prompt()
    steps = line.graph.way_home(shown.mode) or ()
    if all(line.knows(step.move.dialog) for step in steps):
        for step in steps:
            shown = await _take(line, step, lambda: None)
    return shown


async def save(line: CommandLine, may: May) -> tuple[Shown, str]:
    """Saves the configuration, and commits it where somebody is writing one that must be; the prompt that is there then, and
    what the device said.

    Raises:
        PtyctlError: UNSUPPORTED where there is no such command, or only one that commits, and none is being written here; as
            `walk`.
    """
    entry = await _where_it_saves(line, await line.prompt(), may)
    text: list[str] = []
    for command in entry.commands:
        may()
        said = await line.run(command, entry.dialog, patience_s=SAVING_S)
        text += said.lines
        if said.outcome == "silence":  # an interrupt could break off what it is about to write
            still = f"nothing came for {SAVING_S:g} s; it may still be at it: wait, and look at the screen"
            raise _told(said, f"at {command!r}", None, still)
        refused = [one for one in said.lines if any_matches(line.platform.error_patterns(None), one)]
        if said.shown is None or refused:
            raise await _stopped(line, said, f"at {command!r}")
    assert said.shown is not None
    return said.shown, "\n".join(text).strip("\n")


async def _where_it_saves(line: CommandLine, shown: Shown, may: May) -> Commands:
    """The commands, once the device is in a mode that takes them."""
    entries, modes = line.platform.save, line.platform.modes
    here = next((entry for entry in entries if not entry.modes or shown.mode in entry.modes), None)
    if here is not None:
        return here
    if not entries:
        raise unsupported(f"{line.platform.title} saves by itself, or no way is known; type its own command with exec")
    commits_nothing = [mode for entry in entries for mode in entry.modes if not modes[mode].config]
    mode = line.graph.nearest(shown.mode, commits_nothing)
    if mode is not None:
        await walk(line, mode, may)
        return next(entry for entry in entries if mode in entry.modes)
    commands, mode = " and ".join(entries[0].commands), entries[0].modes[0]
    raise unsupported(
        f"nothing was typed: on {line.platform.title} what is committed is saved, and {commands!r} in mode {mode} commits; go "
        "there, look at the changes, and save there"
    )


async def _take(line: CommandLine, step: Step, may: May) -> Shown:
    way = f"on the way from mode {step.source} to {step.target}"
    for command in step.move.commands:
        may()
        said = await line.run(command, step.move.dialog, enter=step.move.enter, quits=True)
        if said.shown is None:
            raise await _stopped(line, said, way)
    assert said.shown is not None
    if said.shown.mode != step.target:
        raise _told(said, way, said.shown)
    return said.shown


async def _stopped(line: CommandLine, said: Said, way: str) -> PtyctlError:
    """No prompt came: what is asked is left, so that the next command is not taken for its answer."""
    shown = said.shown or await line.leave(enters=said.outcome == "refused")
    stays = "it still waits for the answer" if said.asked else "it shows no prompt now: look at the screen"
    return _told(said, way, shown, "the far end closed the line" if line.closed else stays)


def _told(said: Said, way: str, shown: Shown | None, otherwise: str = "") -> PtyctlError:
    where = f"it is in mode {shown.mode} now" if shown is not None else otherwise
    details = {"mode": shown.mode if shown is not None else None, "prompt": said.asked, "stdout": "\n".join(said.lines)}
    if said.outcome == "unknown_secret":
        why = f"the device asks {said.asked!r} {way}, and that secret is not known ({where})"
        return PtyctlError(ErrorCode.AUTH_FAILED, f"{why}; name it (enable_secret) where the device is opened", details)
    if said.secret:
        why = f"the secret was refused {way}: the device asked {said.asked!r} and said {said.text!r} ({where})"
        return PtyctlError(ErrorCode.AUTH_FAILED, f"{why}; check enable_secret", details)
    if said.outcome in ("question", "refused"):
        why = f"the device asks {said.asked!r} {way}, which only you can answer ({where})"
        return PtyctlError(ErrorCode.POLICY_DENIED, f"{why}; type its command with exec and responses", details)
    return PtyctlError(ErrorCode.IO_ERROR, f"the device stopped {way}: it said {said.text!r} ({where})", details)
