"""`platform: auto`: which family a device is of, by its banner, its prompt and a harmless command."""

from __future__ import annotations

from ptyctl.platforms import Detection, Platform, Platforms, Verdict
from ptyctl.platforms.loading import COMMON
from ptyctl.session.io.terminal_state import TerminalState

from .command_line import CommandLine
from .seen import lines_before, shown_lines

AUTO = "auto"
#: The most that is asked: of two families that look alike, the second one's command decides.
_MOST_COMMANDS = 2


def by_banner(terminal: TerminalState, families: Platforms) -> Verdict:
    """What was shown so far tells."""
    return _shown_so_far(terminal, families).verdict()


def of_any_family(families: Platforms) -> Platform:
    """Any command line behind a login that may ask what the login of any family asks."""
    common, logins = families.get(COMMON), [family.login for family in families.all().values()]
    update = {
        "wake": tuple(pattern for login in logins for pattern in login.wake),
        "questions": tuple(answer for login in logins for answer in login.questions),
    }
    return common.model_copy(update={"login": common.login.model_copy(update=update)})


async def detect(terminal: TerminalState, families: Platforms, at_prompt: CommandLine) -> Verdict:
    """At a settled prompt, all that was shown before it being the banner; `at_prompt` knows that prompt."""
    stream = terminal.stream
    detection = _shown_so_far(terminal, families)
    detection.prompt(lines_before(stream, stream.raw_size, stream.incarnation_raw))
    for _ in range(_MOST_COMMANDS):
        command = detection.command()
        if detection.verdict().sure or command is None:
            break
        said = await at_prompt.run(command, (), quits=True)
        detection.output(command, "".join(f"{line}\n" for line in said.lines))
        if said.shown is None:
            await at_prompt.leave()
            break
    return detection.verdict()


def told(verdict: Verdict) -> str:
    """For people: which family, how sure, and why."""
    if verdict.family is None:
        return "platform auto: nothing tells the family, it is taken for generic; name the platform if you know it"
    seen = f"{verdict.family}, {verdict.certainty:.0%} sure ({'; '.join(verdict.why)})"
    return f"platform auto: {seen}" if verdict.sure else f"platform auto: perhaps {seen}: it is taken for generic"


def _shown_so_far(terminal: TerminalState, families: Platforms) -> Detection:
    stream, detection = terminal.stream, Detection(families.all())
    detection.banner(shown_lines(stream, stream.incarnation_raw, stream.raw_size))
    return detection
