"""Settings from PTYCTL_* variables and from the file that PTYCTL_CONFIG names."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.controller.settings import load_settings


@pytest.fixture(autouse=True)
def _configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that is named, and empty."""
    (tmp_path / "config.toml").touch()
    monkeypatch.setenv("PTYCTL_CONFIG", str(tmp_path / "config.toml"))


def test_variables_override_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(os.environ["PTYCTL_CONFIG"]).write_text("max_sessions = 7\nwindow_bytes = 8192\n")
    monkeypatch.setenv("PTYCTL_MAX_SESSIONS", "9")
    settings = load_settings()
    assert (settings.max_sessions, settings.window_bytes) == (9, 8192)
    assert settings.limits.window_bytes == 8192
    assert str(settings.state_dir) == os.environ["PTYCTL_STATE_DIR"]


def test_defaults_apply_without_variables_and_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PTYCTL_STATE_DIR")
    monkeypatch.delenv("PTYCTL_CONFIG")
    settings = load_settings()
    assert settings.max_sessions == 400
    assert settings.limits.window_bytes == 2 * 1024 * 1024
    assert settings.limits.quota_bytes == 1024**3
    assert settings.state_dir.is_relative_to(Path.home())
    assert settings.devices_file.is_relative_to(Path.home())
    assert settings.devices_file.name == "devices.toml"


def test_devices_file_expands_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_DEVICES_FILE", "~/net/devices.toml")
    assert load_settings().devices_file == Path.home() / "net/devices.toml"


@pytest.mark.parametrize(("name", "value"), [("MAX_SESSIONS", "many"), ("MAX_SESSIONS", "0"), ("WINDOW_BYTES", "10")])
def test_invalid_value_error_names_the_setting(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"PTYCTL_{name}", value)
    with pytest.raises(PtyctlError, match=name.lower()) as caught:
        load_settings()
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("max_session = 7\n", "max_session: unknown field; did you mean max_sessions?"),
        ("[inventory]\nlater = true\n", "inventory: unknown field"),
    ],
)
def test_unknown_setting_in_the_file_is_refused(text: str, problem: str) -> None:
    Path(os.environ["PTYCTL_CONFIG"]).write_text(text)
    with pytest.raises(PtyctlError, match=re.escape(problem)) as caught:
        load_settings()
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_invalid_toml_file_is_refused() -> None:
    Path(os.environ["PTYCTL_CONFIG"]).write_text("max_sessions = \n")
    with pytest.raises(PtyctlError, match="PTYCTL_CONFIG") as caught:
        load_settings()
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_config_path_that_is_a_folder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PTYCTL_CONFIG", str(tmp_path))
    with pytest.raises(PtyctlError, match=r"PTYCTL_CONFIG names .* not a file") as caught:
        load_settings()
    assert caught.value.hint == "name a file, or unset PTYCTL_CONFIG"
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_missing_config_file_logs_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PTYCTL_CONFIG", str(tmp_path / "mistyped.toml"))
    assert load_settings().max_sessions == 400
    assert "mistyped.toml" in caplog.text


def test_config_path_expands_home(monkeypatch: pytest.MonkeyPatch) -> None:
    (Path.home() / "from-home.toml").write_text("max_sessions = 7\n")
    monkeypatch.setenv("PTYCTL_CONFIG", "~/from-home.toml")
    assert load_settings().max_sessions == 7
