"""Log lines of device families."""

from __future__ import annotations

import pytest

from ptyctl.platforms import Platforms


@pytest.mark.parametrize("priority", ["EMER", "ALRT", "CRIT", "ERR!", "WARN", "NTFY", "INFO", "DEBG"])
def test_log_line_of_frr_is_recognised_at_each_priority(priority: str) -> None:
    profile = Platforms().get("frr").profile
    assert profile.is_log_line(f"2026-11-23 02:41:37.484 [{priority}] zebra: [RG2NH-FTSDH][EC 4043309102] Kernel updated")
    assert not profile.is_log_line(f"vm# show log {priority}")
