"""Changes the mode of a device, and saves its configuration (docs/contracts.md, ptyctl_session_config)."""

from __future__ import annotations

from collections.abc import Callable

from ptyctl.api.errors import ErrorCode, PtyctlError, unsupported
from ptyctl.platforms import CommandSequence, ModeStep, ShownPrompt
from ptyctl.platforms.pattern import any_matches

from .device_cli import CommandResult, DeviceCli

#: Longest silence while a device saves or commits (seconds).
SAVE_SILENCE_S = 45.0
#: Called with each command before it is typed; raises PtyctlError if the caller may not type it.
CheckCommand = Callable[[str], object]


async def walk(cli: DeviceCli, target: str, check: CheckCommand) -> ShownPrompt:
    """Move the device to a mode by the fewest transitions; return the prompt there.

    Raises:
        PtyctlError: UNSUPPORTED for an unknown mode, listing the known ones; AUTH_FAILED for a secret that was refused or is
            not known; POLICY_DENIED at a question that only the caller may answer; IO_ERROR if the device did not change the
            mode. `details.mode` is the current mode of the device.
    """
    cli.graph.check(target)
    shown = await cli.prompt()
    for step in cli.graph.path(shown.mode, target):
        shown = await _take_step(cli, step, check)
    return shown


async def walk_home(cli: DeviceCli) -> ShownPrompt:
    """Change to the nearest home mode, if all secrets on the path are known. Quits a pager that is open after the login."""
    shown = await cli.prompt(quit_pager=True)
    steps = cli.graph.path_home(shown.mode) or ()
    if all(cli.can_answer(step.transition.dialog) for step in steps):
        for step in steps:
            shown = await _take_step(cli, step, lambda command: None)
    return shown


async def save(cli: DeviceCli, check: CheckCommand) -> tuple[ShownPrompt, str]:
    """Save the configuration, with a commit in a mode that requires one. Return the next prompt and the device's output.

    Raises:
        PtyctlError: UNSUPPORTED if the platform has no save command, or only one that commits outside a configuration mode;
            otherwise as `walk`.
    """
    sequence = await _save_sequence(cli, await cli.prompt(), check)
    output: list[str] = []
    for command in sequence.commands:
        check(command)
        result = await cli.run(command, sequence.dialog, silence_s=SAVE_SILENCE_S)
        output += result.lines
        if result.outcome == "silence":  # an interrupt could abort the write
            where = f"no output for {SAVE_SILENCE_S:g} s; the device may still be saving"
            raise _error(result, f"at {command!r}", None, where, hint="wait, and look at the screen")
        refused = [line for line in result.lines if any_matches(cli.platform.error_patterns(None), line)]
        if result.shown is None or refused:
            raise await _stopped(cli, result, f"at {command!r}")
    assert result.shown is not None
    return result.shown, "\n".join(output).strip("\n")


async def _save_sequence(cli: DeviceCli, shown: ShownPrompt, check: CheckCommand) -> CommandSequence:
    """Change to a mode that accepts save commands, and return the commands."""
    sequences, modes = cli.platform.save, cli.platform.modes
    here = next((one for one in sequences if not one.modes or shown.mode in one.modes), None)
    if here is not None:
        return here
    if not sequences:
        raise unsupported(
            f"{cli.platform.title} saves automatically, or its save command is not known", hint="run the device's own command"
        )
    committing_nothing = [mode for one in sequences for mode in one.modes if not modes[mode].config]
    mode = cli.graph.nearest(shown.mode, committing_nothing)
    if mode is not None:
        await walk(cli, mode, check)
        return next(one for one in sequences if mode in one.modes)
    commands, mode = " and ".join(sequences[0].commands), sequences[0].modes[0]
    raise unsupported(
        f"nothing was typed: on {cli.platform.title} what is committed is saved, and {commands!r} in mode {mode} commits",
        hint=f"go to mode {mode}, look at the changes, and save there",
    )


async def _take_step(cli: DeviceCli, step: ModeStep, check: CheckCommand) -> ShownPrompt:
    way = f"on the way from mode {step.source} to {step.target}"
    for command in step.transition.commands:
        check(command)
        result = await cli.run(
            command, step.transition.dialog, enter=step.transition.enter, quit_pager=True, target=step.target
        )
        if result.shown is None:
            raise await _stopped(cli, result, way)
    assert result.shown is not None
    if result.shown.mode != step.target:
        raise _error(result, way, result.shown)
    return result.shown


async def _stopped(cli: DeviceCli, result: CommandResult, way: str) -> PtyctlError:
    """Return the error for an end other than a prompt. Leaves a question, so that the next command does not answer it."""
    shown = result.shown or await cli.leave_question(press_enter=result.outcome == "refused")
    state = "it still waits for the answer" if result.asked else "it shows no prompt now"
    hint = None if result.asked or cli.closed or shown is not None else "look at the screen"
    return _error(result, way, shown, "the far end closed the connection" if cli.closed else state, hint)


def _error(result: CommandResult, way: str, shown: ShownPrompt | None, state: str = "", hint: str | None = None) -> PtyctlError:
    where = f"it is in mode {shown.mode} now" if shown is not None else state
    details = {
        "mode": shown.mode if shown is not None else None,
        "prompt": result.asked,
        "stdout": "\n".join(result.lines),
    }
    if result.outcome == "unknown_secret":
        code, why = ErrorCode.AUTH_FAILED, f"the device asks {result.asked!r} {way}, and that secret is not known"
        hint = "give the enable secret where the device is opened"
    elif result.secret:
        code = ErrorCode.AUTH_FAILED
        why = f"the secret was refused {way}: the device asked {result.asked!r} and answered {result.text!r}"
        hint = "check the enable secret"
    elif result.outcome in ("question", "refused"):
        code, why = ErrorCode.POLICY_DENIED, f"the device asks {result.asked!r} {way}, which only you can answer"
        hint = "run its command yourself, and give the answer in responses"
    else:
        code, why = ErrorCode.IO_ERROR, f"the device stopped {way}: it answered {result.text!r}"
    return PtyctlError(code, f"{why} ({where})", details, hint=hint)
