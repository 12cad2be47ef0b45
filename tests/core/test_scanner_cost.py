"""Code that examines each received byte in the event loop takes linear time for any output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ptyctl.core.lease import Owner
from ptyctl.core.normaliser import Normaliser
from ptyctl.core.renderer import render_line
from ptyctl.core.sanitizer import TerminalSanitizer
from ptyctl.core.screen import QueryDetector
from ptyctl.core.secret_masker import SecretMasker
from ptyctl.core.unfinished_line import UnfinishedLine
from tests.cost import assert_linear

PREFIXES = (b"", b"\x1b]4;", b"\x1bP+q", b"\x1b[", b"\x1b", b"\x1b[?")
UNITS = (
    *(b"a", b"0", b";", b"?", b" ", b"(", b"\r", b"\n", b"\b", b"\x00", b"\x7f", b"\xc2", b"\x1b", b"; ?", b" \r", b"secret=1"),
    *(b"\x1b[", b"\x1b[0;", b"\x1b[!", b"\x1b(", b"\x1b]?", b"\x1b]\x1b", b"\x1bP+q", b"\x1b\\", b"*\x1b[", b"12:34:", b"%A"),
)


def masker(*secrets: bytes) -> SecretMasker:
    armed = SecretMasker()
    armed.arm(b"\r".join(secrets) + b"\r", 0.0)
    return armed


@pytest.mark.parametrize(
    "scanner",
    [
        pytest.param(lambda data: QueryDetector().feed(data), id="queries"),
        pytest.param(lambda data: Normaliser().feed(data), id="normaliser"),
        pytest.param(lambda data: TerminalSanitizer().feed(data), id="sanitizer"),
        pytest.param(lambda data: masker(b"aaaaaaab", b"a").feed(data, 0.0), id="echo of a secret"),
        pytest.param(lambda data: masker(*(b"secret=%d" % number for number in range(32))).feed(data, 0.0), id="secrets"),
        pytest.param(lambda data: UnfinishedLine().typed(data, Owner("u", ""), 0), id="typed line"),
        pytest.param(lambda data: render_line(b"\b" + data), id="line"),
    ],
)
@pytest.mark.parametrize("prefix", PREFIXES, ids=repr)
def test_scanner_of_hostile_output_takes_linear_time(scanner: Callable[[bytes], Any], prefix: bytes) -> None:
    for unit in UNITS:
        assert_linear(scanner, unit, prefix)
