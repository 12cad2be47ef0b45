"""`platform: auto`: detects the family of a device by its banner, its prompt and a harmless command."""

from __future__ import annotations

import asyncio

from ptyctl.platforms import COMMON, DetectedFamily, Detection, Platform, Platforms
from ptyctl.session.io.terminal_state import TerminalState

from .device_cli import DeviceCli
from .exchange import lines_before, rendered

AUTO = "auto"
#: If two families look alike, the second one's command decides.
_MAX_COMMANDS = 2


async def load_platform(platforms: Platforms, name: str) -> Platform:
    """Return the platform of this name. The file is loaded in a thread: compiling its patterns takes up to 40 ms.

    Raises:
        PtyctlError: as `Platforms.get`.
    """
    return await asyncio.to_thread(platforms.get, name)


def detect_by_banner(terminal: TerminalState, platforms: Platforms) -> DetectedFamily:
    """Detect the family by the output so far."""
    return _with_banner(terminal, platforms).result()


def any_platform(platforms: Platforms) -> Platform:
    """Return a platform for an unknown device, with the login questions of all families."""
    common, logins = platforms.get(COMMON), [platform.login for platform in platforms.all().values()]
    update = {
        "wake": tuple(pattern for login in logins for pattern in login.wake),
        "questions": tuple(answer for login in logins for answer in login.questions),
    }
    return common.model_copy(update={"login": common.login.model_copy(update=update)})


async def detect(terminal: TerminalState, platforms: Platforms, cli: DeviceCli) -> DetectedFamily:
    """Detect the family at a settled prompt of `cli`; all output before it is the banner."""
    stream = terminal.stream
    detection = _with_banner(terminal, platforms)
    detection.prompt(lines_before(stream, stream.raw_size))
    for _ in range(_MAX_COMMANDS):
        command = detection.command()
        if detection.result().sure or command is None:
            break
        result = await cli.run(command, quit_pager=True)
        detection.output(command, "".join(f"{line}\n" for line in result.lines))
        if result.shown is None:
            await cli.leave_question()
            break
    return detection.result()


def format_detected(detected: DetectedFamily) -> str:
    """Return a message with the family, its certainty and the reasons."""
    if detected.family is None:
        return "platform auto: no sign of a family was found, generic is used; name the platform if you know it"
    found = f"{detected.family}, {detected.certainty:.0%} sure ({'; '.join(detected.why)})"
    return f"platform auto: {found}" if detected.sure else f"platform auto: perhaps {found}: generic is used"


def _with_banner(terminal: TerminalState, platforms: Platforms) -> Detection:
    stream, detection = terminal.stream, Detection(platforms.all())
    detection.banner(rendered(stream, stream.incarnation_raw, stream.raw_size))
    return detection
