"""Log records on stderr."""

from __future__ import annotations

import logging
import subprocess
import sys

from ptyctl.stderr_log import RATE_LIMIT, RATE_PERIOD_S, RateLimit

LOGGING = (
    "import logging; from ptyctl.stderr_log import log_to_stderr; log_to_stderr(); log = logging.getLogger('ptyctl.test')\n"
)


def logged(code: str) -> str:
    """Run code that uses `log` in a new process; return its stderr, and check that its stdout is empty."""
    done = subprocess.run([sys.executable, "-c", LOGGING + code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr


def test_warning_with_extra_fields_prints_them_on_one_line() -> None:
    printed = logged("log.warning('cannot restore a session', extra={'session_id': '20261122-1', 'why': 'no meta.json'})")
    assert printed.count("\n") == 1
    assert printed.startswith("timestamp=20")
    assert printed.endswith(
        ' level=warning logger=ptyctl.test event="cannot restore a session" session_id=20261122-1 why="no meta.json"\n'
    )


def test_record_below_the_level_prints_nothing() -> None:
    assert logged("log.info('nothing')") == ""


def test_exception_prints_the_traceback_on_the_same_line() -> None:
    printed = logged("try:\n    1 / 0\nexcept ZeroDivisionError:\n    log.exception('failed')\n")
    assert printed.count("\n") == 1
    assert "ZeroDivisionError: division by zero" in printed


def test_control_characters_are_escaped() -> None:
    printed = logged(r"log.error('title \x1b]0;x\x07 \x9b1m')")
    assert not {"\x1b", "\x07", "\x9b"} & set(printed)


def test_repeated_record_is_limited_and_counted() -> None:
    now = [0.0]
    limit = RateLimit(lambda: now[0])
    record = logging.makeLogRecord({"pathname": "p", "lineno": 1})
    assert [limit.filter(record) for _ in range(RATE_LIMIT + 5)] == [True] * RATE_LIMIT + [False] * 5
    assert limit.filter(logging.makeLogRecord({"pathname": "p", "lineno": 2}))
    now[0] = RATE_PERIOD_S
    assert limit.filter(record)
    assert record.__dict__["suppressed"] == 5


def test_log_of_a_flood_is_bounded() -> None:
    assert logged("for n in range(10_000): log.error('again %d', n)").count("\n") == RATE_LIMIT
