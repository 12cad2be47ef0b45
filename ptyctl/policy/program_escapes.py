"""Commands for a shell in the input of other programs: editors, pagers, debuggers and clients of databases run them."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: Programs that run such commands of their input.
PROGRAMS_WITH_ESCAPES = frozenset(
    "vim vi nvim view ex ed sqlite3 psql mysql mariadb gdb ftp lftp sftp tnftp telnet less more gnuplot".split()  # noqa: SIM905
)
#: Most `!` in a line that are examined, and characters that vim reads after one as a movement: `!Gcmd`, `!ipcmd`.
_MAX_MARKS, _MAX_MOVEMENT = 4, 3
#: `shell` of gdb, `.shell` and `.system` of sqlite3, `system` of mysql, `:terminal` of vim, and their abbreviations.
_ESCAPE_WORD = re.compile(r"[:\s]*(?:\.?s(?:h|he|hel|hell)|\.?sy(?:stem|ste|st|s)?|te(?:r|rm|rmi|rmin|rmina|rminal)?)\s+(.*)")
#: A line of less that is sent to a command begins with `|` and a mark; gdb, sqlite3 (`.output`) and psql (`\o`) send output to
#: the command after the last `|`.
_PIPE = re.compile(r"\s*(?:\||pipe\s|[.\\][a-z]+\s[^|]*\|)(.*)")


def shell_escapes(text: str) -> Iterator[str]:
    """Yield what programs may run in a shell, of one or several lines."""
    for line in text.split("\n"):
        begin = -1
        for _ in range(_MAX_MARKS):
            if (begin := line.find("!", begin + 1)) < 0:
                break
            command = line[begin:].lstrip("!")
            yield from (command[size:] for size in range(_MAX_MOVEMENT + 1) if size < len(command))
        if escape := _ESCAPE_WORD.match(line):
            yield escape[1]
        if pipe := _PIPE.match(line):
            yield from (pipe[1][1:], pipe[1].rpartition("|")[2].strip("'\""))
