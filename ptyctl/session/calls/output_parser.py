"""exec with `parse`: the output as objects, from the device's JSON or a template of ntc-templates (docs/contracts.md, exec)."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptyctl.api.controller import Progress
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.platforms import Platform
from ptyctl.session.runs.run_output import run_output
from ptyctl.session.session import Session

from .exec import execute

#: Longer output is not parsed: a template matches line by line, and would hold up other sessions.
MAX_PARSED_BYTES = 4 * 1024 * 1024
#: Commands that only show something may be asked for JSON; they can be abbreviated to two characters.
_SHOW_COMMANDS = ("show", "display")
_SHORTEST = 2


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """`rows`, and the name of the template that gave them; or `why` there are none."""

    rows: list[dict[str, Any]] | None = None
    template: str | None = None
    why: str | None = None


async def execute_parsed(session: Session, request: ExecRequest, progress: Progress | None) -> ExecReply:
    """Answer an exec request with `parse`. If the output cannot be parsed, the reply has the text and the reason.

    Raises:
        PtyctlError: as `execute`.
    """
    suffix = session.platform.json_suffix if session.platform is not None else None
    if suffix is not None and request.cmd is not None and may_show_json(request.cmd, suffix):
        request = request.model_copy(update={"cmd": request.cmd.rstrip() + suffix})
    reply = await execute(session, request, progress)
    parsed = await _parsed(session, reply)
    reply.parsed, reply.template = parsed.rows, parsed.template
    if parsed.why is not None:
        reply.message = "; ".join(part for part in (reply.message, f"not parsed: {parsed.why}") if part)
    return reply


def may_show_json(cmd: str, suffix: str) -> bool:
    """Return whether a command only shows something, and is neither filtered nor asks for JSON already."""
    first = cmd.split(maxsplit=1)[0] if cmd.strip() else ""
    shows = len(first) >= _SHORTEST and any(word.startswith(first) for word in _SHOW_COMMANDS)
    return shows and "\n" not in cmd and "|" not in cmd and not cmd.rstrip().endswith(suffix.strip())


async def _parsed(session: Session, reply: ExecReply) -> ParsedOutput:
    platform, run = session.platform, session.runs.find(reply.block_id)
    if not run.ended:
        return ParsedOutput(why="it has not ended; wait for it with block_id, and parse again")
    if platform is None:
        return ParsedOutput(why="the session has no platform; open it with one")
    if "\n" in run.command:
        return ParsedOutput(why="only the output of one command can be parsed; give cmd alone")
    if reply.error_hints:
        return ParsedOutput(why="the device refused the command; see error_hints")
    output = await run_output(run, session.stream, MAX_PARSED_BYTES)
    if output.omitted_bytes:
        return ParsedOutput(why=f"the output is longer than {MAX_PARSED_BYTES} bytes; ask for less of it")
    return await asyncio.to_thread(parse, platform, run.command, output.text)


def parse(platform: Platform, command: str, text: str) -> ParsedOutput:
    """Return the complete output of a command as objects. May take seconds; reads only template files."""
    if platform.json_suffix is not None and command.endswith(platform.json_suffix):
        return _from_json(text)
    return _by_template(platform, command, text)


def _from_json(text: str) -> ParsedOutput:
    try:
        value = json.loads(text)
    except ValueError:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "nothing")
        return ParsedOutput(why=f"the device has no JSON for this command, it printed {first[:100]!r}; run it without parse")
    rows = value if isinstance(value, list) else [value]
    return ParsedOutput([row if isinstance(row, dict) else {"value": row} for row in rows])


def _by_template(platform: Platform, command: str, text: str) -> ParsedOutput:
    if platform.ntc_templates is None:
        return ParsedOutput(why="ntc-templates does not know this platform")
    try:
        import ntc_templates
        import textfsm
        from textfsm import clitable
    except ImportError:
        return ParsedOutput(why="that needs a package which is not installed; run: pip install 'ptyctl[parse]'")
    folder = os.environ.get("NTC_TEMPLATES_DIR") or str(Path(ntc_templates.__file__).parent / "templates")
    wanted = {"Command": command.strip(), "Platform": platform.ntc_templates}
    try:
        table = clitable.CliTable("index", folder)
        row = table.index.GetRowMatch(wanted)
        if not row:
            return ParsedOutput(why=f"ntc-templates has no template for {command.strip()[:60]!r} on {platform.ntc_templates}")
        template = str(table.index.index[row]["Template"])
        table.ParseCmd(text, wanted)
    except (clitable.Error, textfsm.Error) as error:
        return ParsedOutput(why=f"the template does not match this output: {str(error)[:200]}")
    names = [name.lower() for name in table.header]
    return ParsedOutput([dict(zip(names, list(row), strict=True)) for row in table], template)
