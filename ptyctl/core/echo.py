"""Where the echo of a typed line ends, in what a device sends back: compared as a terminal shows it.

A line editor wraps, repaints, cuts and doubles what it shows of a line that reaches its edge. The width it goes by may be that
of its own settings, whatever the terminal has told it.
"""

from __future__ import annotations

from .renderer import render

#: What a device takes for its width where nobody told it, and what knows no edge.
_WIDTHS = (80, 1 << 30)
#: The echo of a line has no more rows than this.
_ROWS = 64


def echo_end(data: bytes, prompt: str, line: str, width: int) -> int | None:
    """The offset behind the echo of `line`, typed at `prompt`, in `data`, all that came since; its line end belongs to it.

    None while it may go on in what is to come; 0 where the device echoes nothing.
    """
    end = data.find(b"\n") + 1
    if not end:
        return None
    if data[:end].rstrip(b"\r\n") == line.encode():
        return end
    first, still = end, False
    for _ in range(_ROWS):
        shown = {_joined(data[:end], prompt, columns) for columns in (width, *_WIDTHS)}
        if any(_shows(text, prompt, line) for text in shown):
            return end
        still = any(_may_go_on(text, prompt + line) for text in shown)
        following = data.find(b"\n", end) + 1
        if not still or not following:
            break
        end = following
    if still:
        return None
    typed = render(data[:first], width).strip()
    return first if not typed or typed == prompt.strip() else 0


def _joined(data: bytes, prompt: str, width: int) -> str:
    """What the rows show, as one line."""
    return render(prompt.encode() + data, width).replace("\n", "")


def _shows(shown: str, prompt: str, line: str) -> bool:
    shown, whole, command = shown.rstrip(), (prompt + line).rstrip(), line.strip()
    if shown == whole or (command and shown.endswith(command)):  # a prompt with the time in it is repainted as another
        return True
    if not shown.startswith(prompt.rstrip()) or len(shown) >= len(whole):
        return False
    seen = shown[len(prompt.rstrip()) :].lstrip()
    cut_behind = len(seen) > 1 and seen.endswith("$") and command.startswith(seen[:-1])
    cut_before = len(seen) > 1 and seen.startswith("$") and command.endswith(seen[1:])
    return cut_behind or cut_before


def _may_go_on(shown: str, whole: str) -> bool:
    """Whether these are the first rows of more."""
    return bool(shown) and len(shown) < len(whole) and whole.startswith(shown)
