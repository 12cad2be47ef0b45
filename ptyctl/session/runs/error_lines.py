"""The lines of a device's output that report errors."""

from __future__ import annotations

import asyncio
from functools import lru_cache, partial
from typing import Any

from ptyctl.core.search import LOOP_STEPS, AnyPattern
from ptyctl.platforms import DeviceProfile
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.io.pattern_search import search_with

from .run import Run
from .run_output import OutputRenderer

#: Size of the pieces in which a long output is searched.
_PIECE_CHARACTERS = 1024 * 1024
#: Limits of the error lines in a block: their number, and the characters of each.
_KEPT_LINES = 5
_KEPT_CHARACTERS = 200


async def error_lines(stream: OutputStream, profile: DeviceProfile, text: str) -> list[str]:
    """Return the lines of `text` that an error pattern matches, in order, each once.

    Raises:
        PtyctlError: LIMIT_EXCEEDED if the search takes too long.
    """
    data = text.encode("utf-8", "replace")
    if not profile.errors or len(data) <= profile.errors_at_once:
        found = _matches_at_once(data, profile)
    else:
        await asyncio.sleep(0)  # continues in a task, which is required to wait for a thread
        found = await search_with(stream.search_turn, AnyPattern(profile.errors), LOOP_STEPS + 1, partial(_matches, data))
    return list(dict.fromkeys(line for _, line in sorted(found) if line))


async def error_lines_between(stream: OutputStream, profile: DeviceProfile, begin: int, end: int) -> list[str]:
    """Return the error lines in the output between two raw offsets; see `error_lines`."""
    output, text, found = OutputRenderer(stream, begin), "", list[str]()
    while output.raw < end:
        text += await output.next_text(end)
        if len(text) > _PIECE_CHARACTERS:
            cut = text.rfind("\n") + 1 or len(text)
            found += await error_lines(stream, profile, text[:cut])
            text = text[cut:]
    found += await error_lines(stream, profile, text + output.renderer.finish())
    return list(dict.fromkeys(found))


def kept_error_lines(stream: OutputStream, run: Run, spool_end: int) -> list[str]:
    """Return the first error lines of a run on a device, for its block.

    Of a long output only head and tail are searched, so that the search does not delay the end of the run.
    """
    if not run.on_device or run.spool_begin is None:
        return []
    found = [line for failed in run.failed_lines for line in failed.said]
    if not found:
        profile, begin = run.profile, min(stream.first_readable(run.spool_begin), spool_end)
        half = profile.errors_at_once // 2
        text = stream.read(begin, min(begin + 2 * half, spool_end))
        if spool_end - begin > 2 * half:
            tail = stream.read(spool_end - half, spool_end)
            text = text[: text.rfind(b"\n", 0, half) + 1] + tail[tail.find(b"\n") + 1 :]
        found = [line for _, line in sorted(_matches_at_once(text, profile))]
    return [line[:_KEPT_CHARACTERS] for line in dict.fromkeys(found) if line][:_KEPT_LINES]


@lru_cache(maxsize=4)  # the block and the reply of a command search the same text
def _matches_at_once(text: bytes, profile: DeviceProfile) -> list[tuple[int, str]]:
    return _matches(text, AnyPattern(profile.errors))


def _matches(text: bytes, patterns: Any) -> list[tuple[int, str]]:
    """Return the line where each match ends, with its offset."""
    lines = []
    for pattern in patterns.parts:
        position = 0
        while position <= len(text) and (found := pattern.search(text, position)) is not None:
            begin = text.rfind(b"\n", 0, max(found.end() - 1, found.start())) + 1
            end = text.find(b"\n", begin)
            position = len(text) + 1 if end < 0 else end + 1
            lines.append((begin, text[begin : position - 1].decode("utf-8", "replace").strip()))
    return lines
