"""exec with parse: the output as objects, by the device's own JSON or a template of ntc-templates (CONTRACTS, exec)."""

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
from ptyctl.session.runs.output import output_of
from ptyctl.session.session import Session

from .exec import execute

#: Of a longer output nothing is parsed: a template works line by line, and others wait for the same processor.
MOST_BYTES = 4 * 1024 * 1024
#: These only show something: they may be asked for JSON. So short may they be typed.
_SHOWING = ("show", "display")
_SHORTEST = 2


@dataclass(frozen=True, slots=True)
class Parsed:
    """`rows`, and the template's name where one gave them; or `why` there are none."""

    rows: list[dict[str, Any]] | None = None
    template: str | None = None
    why: str | None = None


async def execute_parsed(session: Session, request: ExecRequest, progress: Progress | None) -> ExecReply:
    """QueryResponder an exec request with `parse`. What cannot be parsed is no error: the reply says why, and has the text.

    Raises:
        PtyctlError: as `execute`.
    """
    suffix = session.platform.json_suffix if session.platform is not None else None
    if suffix is not None and request.cmd is not None and _may_show_json(request.cmd, suffix):
        request = request.model_copy(update={"cmd": request.cmd.rstrip() + suffix})
    reply = await execute(session, request, progress)
    parsed = await _parsed(session, reply)
    reply.parsed, reply.template = parsed.rows, parsed.template
    if parsed.why is not None:
        reply.message = "; ".join(part for part in (reply.message, f"not parsed: {parsed.why}") if part)
    return reply


def _may_show_json(cmd: str, suffix: str) -> bool:
    """Whether it only shows something, and is not filtered or in JSON already."""
    first = cmd.split(maxsplit=1)[0] if cmd.strip() else ""
    shows = len(first) >= _SHORTEST and any(word.startswith(first) for word in _SHOWING)
    return shows and "\n" not in cmd and "|" not in cmd and not cmd.rstrip().endswith(suffix.strip())


async def _parsed(session: Session, reply: ExecReply) -> Parsed:
    platform, run = session.platform, session.runs.find(reply.block_id)
    if run.done_reason is None:
        return Parsed(why="it still runs; wait for it with block_id, and parse again")
    if platform is None:
        return Parsed(why="the session has no platform; open it with one")
    if "\n" in run.command:
        return Parsed(why="only one command's output can be; give cmd alone")
    if reply.error_hints:
        return Parsed(why="the device refused the command; see error_hints")
    output = output_of(run, session.stream, MOST_BYTES)
    if output.omitted_bytes:
        return Parsed(why=f"the output is longer than {MOST_BYTES} bytes; ask for less of it")
    return await asyncio.to_thread(parse, platform, run.command, output.text)


def parse(platform: Platform, command: str, text: str) -> Parsed:
    """A command's whole output as objects. Pure but for the templates' files; it may take long."""
    if platform.json_suffix is not None and command.endswith(platform.json_suffix):
        return _from_json(text)
    return _by_template(platform, command, text)


def _from_json(text: str) -> Parsed:
    try:
        value = json.loads(text)
    except ValueError:
        said = next((line.strip() for line in text.splitlines() if line.strip()), "nothing")
        return Parsed(why=f"the device offers JSON, but not for this: it said {said[:100]!r}; run it without parse")
    rows = value if isinstance(value, list) else [value]
    return Parsed([row if isinstance(row, dict) else {"value": row} for row in rows])


def _by_template(platform: Platform, command: str, text: str) -> Parsed:
    if platform.ntc_templates is None:
        return Parsed(why="ntc-templates does not know this platform")
    try:
        import ntc_templates
        import textfsm
        from textfsm import clitable
    except ImportError:
        return Parsed(why="that needs a package which is not installed; run: pip install 'ptyctl[parse]'")
    folder = os.environ.get("NTC_TEMPLATES_DIR") or str(Path(ntc_templates.__file__).parent / "templates")
    asked = {"Command": command.strip(), "Platform": platform.ntc_templates}
    try:
        table = clitable.CliTable("index", folder)
        row = table.index.GetRowMatch(asked)
        if not row:
            return Parsed(why=f"ntc-templates has no template for {command.strip()[:60]!r} on {platform.ntc_templates}")
        template = str(table.index.index[row]["Template"])
        table.ParseCmd(text, asked)
    except (clitable.Error, textfsm.Error) as error:
        return Parsed(why=f"the template does not fit this output: {str(error)[:200]}")
    names = [name.lower() for name in table.header]
    return Parsed([dict(zip(names, list(row), strict=True)) for row in table], template)
