"""`ptyctl policy check`, `test`, `show` and `reload`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.daemons import daemon_pid
from ptyctl.daemon import control
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import is_one_line, open_local, ptyctl

IOS = ("--platform", "cisco_ios")
DENY = '[[rules]]\nid = "no-{0}"\ncommand = ["{0}"]\ndecision = "deny"\nreason = "not here"\nmatches = ["{0}", "{1}"]\n'


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The policy file next to the configuration; it does not exist yet."""
    (tmp_path / "config.toml").touch()
    monkeypatch.setenv("PTYCTL_CONFIG", str(tmp_path / "config.toml"))
    return tmp_path / "policy.toml"


def is_up(runtime_dir: RuntimeDir) -> bool:
    return daemon_pid(runtime_dir) is not None


def in_force(problem: bool = False) -> str:
    """Return the name of the daemon's policy, or its problem."""
    reply = ptyctl("policy", "show", "--json").json
    return str(reply.get("problem", "")) if problem else str(reply["policy"])


@pytest.mark.parametrize(
    ("options", "text", "code"),
    [
        (IOS, ("show", "version"), 0),
        (IOS, ("rel", "in", "5"), 3),
        ((*IOS, "--mode", "config"), ("do reload",), 3),
        (("--platform", "linux"), ("curl x | sh",), 3),
        (("--platform", "linux"), ("python3 -c x",), 0),
        (("--platform", "linux", "--where", "program"), ("x",), 0),
    ],
)
def test_check_exits_by_the_decision(
    runtime_dir: RuntimeDir, options: tuple[str, ...], text: tuple[str, ...], code: int
) -> None:
    result = ptyctl("policy", "check", *options, "--", *text)
    assert (result.code, result.err) == (code, "")
    assert not is_up(runtime_dir)


def test_check_prints_canonical_form_rules_and_policy(runtime_dir: RuntimeDir, policy: Path) -> None:
    policy.write_text('extends = ["guarded"]\n' + DENY.format("reload", "rel"))
    result = ptyctl("policy", "check", *IOS, "--", "RELOAD   in 5")
    assert result.code == 4
    assert "canonical   reload in 5\n" in result.out
    assert "reason      not here\n" in result.out
    text = " ".join(result.out.split())
    assert " ask reload (guarded:" in text
    assert f" deny no-reload ({policy}:2): not here" in text
    assert f" policy {policy} (read now: no daemon is running) " in text
    assert all(len(line) <= 80 for line in result.out.splitlines() if str(policy) not in line)


def test_check_prints_json_on_one_line(runtime_dir: RuntimeDir) -> None:
    result = ptyctl("policy", "check", *IOS, "--json", "--", "reload")
    assert (result.out.count("\n"), result.code) == (1, 3)
    fields = ("policy", "decision", "rules", "reason", "canonical", "mode")
    assert [result.json[field] for field in fields] == [
        "guarded", "ask", ["reload"], "restarts the device", "reload", "privileged"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--device", "sw1"), "there is no inventory"),
        (("--platform", "ios"), "'ios' is not known"),
        (("--session", "nothing"), "nothing"),
    ],
)
def test_check_without_a_verdict_exits_with_1(runtime_dir: RuntimeDir, options: tuple[str, ...], error: str) -> None:
    """Exit codes 3 and 4 are verdicts."""
    result = ptyctl("policy", "check", *options, "--", "reload")
    assert (result.code, result.out) == (1, "")
    assert is_one_line(result.err)
    assert error in result.err


def test_check_with_a_faulty_policy_exits_with_1(runtime_dir: RuntimeDir, policy: Path) -> None:
    policy.write_text("default = ")
    result = ptyctl("policy", "check", *IOS, "--", "show version")
    assert (result.code, is_one_line(result.err)) == (1, True)
    assert "policy.toml: not valid TOML" in result.err


def test_check_in_a_session_asks_the_daemon(runtime_dir: RuntimeDir, policy: Path) -> None:
    session = open_local()
    policy.write_text("default = ")  # the daemon keeps the preset
    assert "(the daemon's)" in ptyctl("policy", "check", *IOS, "--", "reload").out
    result = ptyctl("policy", "check", "--session", session, "--json", "--", "mkfs /dev/sda")
    assert result.json["policy"] == "guarded"


def test_test_prints_the_number_of_examples(runtime_dir: RuntimeDir, policy: Path) -> None:
    policy.write_text(DENY.format("reload", "rel"))
    result = ptyctl("policy", "test")
    assert (result.code, result.out) == (0, f"{policy}: 2 examples, 0 failed\n")
    assert ptyctl("policy", "test", "guarded").out.startswith("guarded: ")


def test_test_names_every_failing_example(runtime_dir: RuntimeDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text("\n" + DENY.format("reload", "boot") + DENY.format("erase", "wipe"))
    monkeypatch.chdir(tmp_path)
    result = ptyctl("policy", "test", "mine.toml")
    assert result.code == 1
    assert result.out.endswith("mine.toml: 4 examples, 2 failed\n")
    first, second = result.err.splitlines()
    assert "mine.toml:2: rule 'no-reload': the example 'boot' in matches does not match" in first
    assert "mine.toml:8: rule 'no-erase': the example 'wipe'" in second
    failed = ptyctl("policy", "test", "mine.toml", "--json").json["failed"]
    assert [fault["details"]["line"] for fault in failed] == [2, 8]


@pytest.mark.parametrize(
    ("text", "error"), [(None, "cannot be read"), ("x = ", "not valid TOML"), ("x = 1", "mine.toml:1: x: ")]
)
def test_test_of_a_faulty_file_exits_with_1(runtime_dir: RuntimeDir, tmp_path: Path, text: str | None, error: str) -> None:
    if text is not None:
        (tmp_path / "mine.toml").write_text(text)
    result = ptyctl("policy", "test", str(tmp_path / "mine.toml"))
    assert (result.code, result.out, is_one_line(result.err)) == (1, "", True)
    assert error in result.err


def test_show_prints_every_rule_in_80_columns(runtime_dir: RuntimeDir) -> None:
    result = ptyctl("policy", "show")
    assert result.out.startswith("policy      guarded (read now: no daemon is running)\nsha256 ")
    assert "\nunparsed    warn\n" in result.out
    assert "\nask   reload (guarded:" in result.out
    assert max(map(len, result.out.splitlines())) <= 80


def test_reload_without_a_daemon_names_what_to_do(runtime_dir: RuntimeDir) -> None:
    result = ptyctl("policy", "reload")
    assert (result.code, is_one_line(result.err)) == (3, True)
    assert "ptyctl policy test" in result.err


def test_reload_loads_the_file_or_names_its_fault(runtime_dir: RuntimeDir, policy: Path) -> None:
    control.start(runtime_dir)
    policy.write_text(DENY.format("reload", "rel"))
    assert ptyctl("policy", "reload").out.startswith(f"loaded: {policy}, 1 rules, SHA-256 ")
    policy.write_text('[[rules]]\nid = "r"\n')
    result = ptyctl("policy", "reload")
    assert (result.code, is_one_line(result.err)) == (2, True)
    assert f"{policy}:1: rule 'r': decision: " in result.err
    assert "stays in force" in result.err
    assert ptyctl("policy", "check", *IOS, "--", "reload").code == 4


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_daemon_notices_an_edit_and_a_fault(runtime_dir: RuntimeDir, policy: Path) -> None:
    control.start(runtime_dir)
    policy.write_text(DENY.format("reload", "rel"))
    until(lambda: in_force() == str(policy))
    policy.write_text("default = ")
    until(lambda: "not valid TOML" in in_force(problem=True))
    assert "\nproblem" in ptyctl("policy", "show").out


def test_sighup_makes_the_daemon_load_the_policy_again(runtime_dir: RuntimeDir, policy: Path) -> None:
    policy.write_text(DENY.format("reload", "rel"))
    pid = control.start(runtime_dir).pid
    policy.unlink()  # a file that is missing is an edit in progress; only a reload gives it up
    os.kill(pid, signal.SIGHUP)
    until(lambda: in_force() == "guarded")
    assert daemon_pid(runtime_dir) == pid
