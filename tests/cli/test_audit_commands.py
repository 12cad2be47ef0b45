"""`ptyctl audit` and `ptyctl audit verify`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from fixtures.daemons import end_daemon
from ptyctl.api.operator import AuditReply
from ptyctl.cli.audit_commands import _report_missing
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import open_local, ptyctl


@pytest.fixture
def ended_daemon(runtime_dir: RuntimeDir) -> Callable[[], None]:
    """Stop the daemon, which writes all rows."""
    return lambda: end_daemon(runtime_dir)


def audited(*options: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ptyctl("audit", "--json", *options).json["rows"]
    return rows


def test_audit_lists_what_was_done(ended_daemon: Callable[[], None]) -> None:
    session = open_local()
    ptyctl("exec", session, "--task", "deploy", "--", "echo", "hi")
    ptyctl("send", session, "--task", "deploy", "--key", "ctrl_c")
    ended_daemon()
    assert [row["text"] for row in audited("--session", session, "--event", "text")] == ["echo hi", "\x03"]
    table = ptyctl("audit", "--task", "deploy", "--since", "1h").out
    assert table.splitlines()[0].split()[:3] == ["TIME", "EVENT", "PRINCIPAL"]
    assert "via=exec" in table
    assert "echo hi" in table
    assert r"text=\x03" in table
    connections = [row["via"] for row in audited() if row["event"] == "connect"]
    assert set(connections) == {"rpc"}


def test_verify_finds_a_changed_row(ended_daemon: Callable[[], None], tmp_path: Path) -> None:
    ptyctl("exec", open_local(), "--", "echo", "hi")
    ended_daemon()
    result = ptyctl("audit", "verify")
    assert (result.code, len(result.out.splitlines())) == (0, 1)
    (file,) = (tmp_path / "state" / "audit").glob("*.jsonl")
    ended_daemon()
    file.write_bytes(file.read_bytes().replace(b"echo hi", b"echo ho"))
    result = ptyctl("audit", "verify", "--json")
    assert result.code == 1
    assert result.json["first_bad"]["file"] == file.name
    assert "prev" in ptyctl("audit", "verify").out


@pytest.mark.parametrize("age", ["", "x", "5", "5y", "d", "0m"])
def test_invalid_age_is_refused(age: str) -> None:
    result = ptyctl("audit", "--since", age)
    assert result.code == 2
    assert "12h" in result.err


def test_changes_of_tokens_are_recorded(runtime_dir: RuntimeDir, tmp_path: Path) -> None:
    ptyctl("token", "create", "night", "--devices", "sw-*")
    ptyctl("token", "revoke", "night")
    rows = audited("--since", "1h")
    changes = [(row["event"], row["token"]) for row in rows if "token" in row]
    assert changes == [("token_created", "night"), ("token_revoked", "night")]


def test_reply_without_the_rows_of_other_nodes_is_reported_with_exit_code_6(capsys: pytest.CaptureFixture[str]) -> None:
    _report_missing(AuditReply(rows=[]))
    with pytest.raises(typer.Exit) as ended:
        _report_missing(AuditReply(rows=[], notices=["those of b are missing"]))
    assert ended.value.exit_code == 6
    assert "those of b are missing" in capsys.readouterr().err
