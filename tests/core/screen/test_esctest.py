"""esctest2, an external suite for terminals, against the screen model.

Runs with `PTYCTL_ESCTEST=<checkout of esctest2>` only; `PTYCTL_ESCTEST_INCLUDE` selects tests by a regular expression. Prints
the failing tests with `-s`.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from pathlib import Path

import pytest

from ptyctl.core.screen import ScreenModel

CHECKOUT = os.environ.get("PTYCTL_ESCTEST")
INCLUDE = os.environ.get("PTYCTL_ESCTEST_INCLUDE", ".*")
ROWS, COLS = 25, 80
#: Of 568 tests; 468 pass. The others set the size of the window, read titles, use colours in CIE form, or expect the bugs and
#: the device attributes of xterm.
PASSING = 460


def run_in_model(argv: list[str], folder: Path) -> None:
    """Run a program whose terminal is a screen model."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execv(argv[0], argv)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLS, 0, 0))
    model = ScreenModel(COLS, ROWS)
    model.feed(b"\x1b[3#y")  # checksums are plain sums of characters
    try:
        while data := os.read(master, 1 << 16):
            for begin in range(0, len(data), 256):
                model.feed(data[begin : begin + 256])
                os.write(master, b"".join(model.responses))
                model.responses.clear()
    except OSError:  # the program ended
        pass
    finally:
        os.close(master)
        os.waitpid(pid, 0)


@pytest.mark.skipif(CHECKOUT is None, reason="needs PTYCTL_ESCTEST, a checkout of esctest2")
@pytest.mark.timeout(900)
def test_esctest_at_vt_level_4_passes_most_tests(tmp_path: Path) -> None:
    log = tmp_path / "esctest.log"
    options = ["--expected-terminal=xterm", "--max-vt-level=4", "--timeout=1", "--xterm-checksum=334", "--no-print-logs"]
    argv = [sys.executable, "esctest.py", *options, f"--include={INCLUDE}", f"--logfile={log}"]
    run_in_model(argv, Path(str(CHECKOUT)) / "esctest")
    text = log.read_text(errors="replace")
    summary = re.search(r"\*\*\* (\d+) tests? passed, .*", text)
    assert summary is not None, text[-2000:]
    print(summary[0])
    print(text[summary.end() :])
    if INCLUDE == ".*":
        assert int(summary[1]) >= PASSING
