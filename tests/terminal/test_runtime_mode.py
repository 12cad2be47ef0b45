"""Sections 5.2, 6.1, 7.1, 7.2 and 9.4 of the contract: which adapter serves a request, and its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptyctl.terminal.errors import TerminalError
from ptyctl.terminal.runtime_mode import bridge_settings, local_settings, read_token, resolve_mode

TOKEN = "t" * 43
SPAWN_TIMEOUT = "PM_INTERACTIVE_TERMINAL_SPAWN_TIMEOUT_MS"
BINARY = "PM_INTERACTIVE_TERMINAL_BINARY"


@pytest.mark.parametrize(
    ("override", "environment", "mode"),
    [
        pytest.param("local", {"PM_TERM_ADAPTER_MODE": "bundled"}, "local", id="spec-5.2-1 request override"),
        pytest.param(
            None, {"PM_TERM_ADAPTER_MODE": "container_bridge"}, "container_bridge", id="spec-7.2-2 container_bridge configured"
        ),
        pytest.param(None, {"PM_TERM_ADAPTER_MODE": "bundled"}, "bundled", id="spec-5.2-2 server configuration"),
        pytest.param(
            None,
            {"PM_TERM_ADAPTER_MODE": "local", "PM_RUNNING_IN_CONTAINER": "true"},
            "local",
            id="spec-5.2-2 before detection",
        ),
        pytest.param(
            None, {"PM_RUNNING_IN_CONTAINER": "true"}, "container_bridge", id="spec-5.2-3 spec-7.2-1 container detection"
        ),
        pytest.param(None, {}, "local_or_bundled_auto", id="spec-5.2-4 default"),
        pytest.param("bundled", {}, "bundled", id="bundled"),
        pytest.param("container_bridge", {}, "container_bridge", id="container_bridge"),
        pytest.param("auto", {"PM_RUNNING_IN_CONTAINER": "true"}, "container_bridge", id="spec-5.2-7 auto in a container"),
        pytest.param("auto", {}, "local_or_bundled_auto", id="spec-5.2-8 auto elsewhere"),
        pytest.param(None, {"PM_TERM_ADAPTER_MODE": "auto"}, "local_or_bundled_auto", id="configured auto"),
        pytest.param(None, {"PM_RUNNING_IN_CONTAINER": "false"}, "local_or_bundled_auto", id="not in a container"),
    ],
)
def test_mode_is_the_first_that_is_given(override: str | None, environment: dict[str, str], mode: str) -> None:
    assert resolve_mode(override, environment) == mode


@pytest.mark.parametrize(
    ("override", "environment"),
    [
        pytest.param("remote", {}, id="spec-5.2-6 unknown override"),
        pytest.param(None, {"PM_TERM_ADAPTER_MODE": "remote"}, id="spec-5.2-6 unknown configuration"),
    ],
)
def test_unknown_mode_is_an_invalid_payload(override: str | None, environment: dict[str, str]) -> None:
    with pytest.raises(TerminalError) as error:
        resolve_mode(override, environment)
    assert error.value.code == "PM_TERM_INVALID_PAYLOAD"


@pytest.mark.parametrize("row", ["spec-7.1-1 spec-7.1-3 spec-7.1-4 spec-7.1-5"])
def test_bridge_settings_have_the_defaults_of_the_contract(row: str) -> None:
    settings = bridge_settings({"PM_INTERACTIVE_TERMINAL_TOKEN": TOKEN})
    hosts = ("host.containers.internal", "host.docker.internal")
    assert settings == (hosts, 45459, TOKEN, 3000, 30_000, False)


@pytest.mark.parametrize("row", ["spec-7.2-3 spec-7.2-4 spec-7.2-5 spec-7.2-6"])
def test_bridge_variables_replace_the_defaults(row: str) -> None:
    values = {"HOST_ALIAS": "a", "HOST_FALLBACK_ALIAS": "b", "HOST_PORT": "1", "CONNECT_TIMEOUT_MS": "2"}
    values |= {"REQUEST_TIMEOUT_MS": "3", "TOKEN": TOKEN, "TRACE_BRIDGE": "1"}
    environment = {f"PM_INTERACTIVE_TERMINAL_{name}": value for name, value in values.items()}
    assert bridge_settings(environment) == (("a", "b"), 1, TOKEN, 2, 3, True)


@pytest.mark.parametrize(
    ("name", "value", "listed"),
    [
        pytest.param("TOKEN", "", "missing", id="spec-5.2-5 spec-7.3-8 missing bridge configuration"),
        pytest.param("TOKEN", "short", "invalid", id="short token"),
        pytest.param("TOKEN_FILE", "/nonexistent", "invalid", id="unreadable token"),
        pytest.param("HOST_PORT", "http", "invalid", id="port that is no number"),
        pytest.param("HOST_PORT", "65536", "invalid", id="port out of range"),
        pytest.param("CONNECT_TIMEOUT_MS", "0", "invalid", id="no connect timeout"),
        pytest.param("REQUEST_TIMEOUT_MS", "-1", "invalid", id="negative request timeout"),
    ],
)
def test_invalid_bridge_variables_are_an_invalid_mode(name: str, value: str, listed: str) -> None:
    variable = f"PM_INTERACTIVE_TERMINAL_{name}"
    with pytest.raises(TerminalError) as error:
        bridge_settings({"PM_INTERACTIVE_TERMINAL_TOKEN": TOKEN, variable: value})
    assert error.value.code == "PM_TERM_INVALID_MODE"
    named: Any = error.value.details[listed]
    assert [name.removesuffix("_FILE") for name in named] == [variable.removesuffix("_FILE")]
    assert value not in error.value.message or len(value) < 3


def test_token_of_the_file_replaces_that_of_the_variable(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token({"PM_INTERACTIVE_TERMINAL_TOKEN_FILE": str(file), "PM_INTERACTIVE_TERMINAL_TOKEN": "u" * 43}) == TOKEN


@pytest.mark.parametrize(
    ("path", "environment", "code"),
    [
        pytest.param(None, {BINARY: "bin/term"}, "PM_TERM_INVALID_PAYLOAD", id="spec-6.1-5 relative configured path"),
        pytest.param("bin/term", {BINARY: "bin/term"}, "PM_TERM_INVALID_PAYLOAD", id="spec-6.1-5 relative path of a request"),
        pytest.param("/bin/sh", {}, "PM_TERM_BLOCKED_DESTRUCTIVE", id="path of a request that is not allowed"),
        pytest.param(
            None,
            {"PM_INTERACTIVE_TERMINAL_SPAWN_TIMEOUT_MS": "30001"},
            "PM_TERM_INVALID_PAYLOAD",
            id="spec-6.2-2 at most 30000",
        ),
    ],
)
def test_invalid_local_settings_are_refused(path: str | None, environment: dict[str, str], code: str) -> None:
    with pytest.raises(TerminalError) as error:
        local_settings(path, None, environment)
    assert error.value.code == code


@pytest.mark.parametrize(
    ("path", "environment", "binary"),
    [
        pytest.param(None, {}, None, id="spec-6.2-2 nothing configured"),
        pytest.param(None, {BINARY: "/a"}, "/a", id="configured path"),
        pytest.param("/a", {BINARY: "/a"}, "/a", id="path of a request"),
        pytest.param("/b", {BINARY: "/a", "PM_INTERACTIVE_TERMINAL_ALLOWED_BINARIES": "/c:/b"}, "/b", id="allowed path"),
    ],
)
def test_local_settings_name_the_configured_program(path: str | None, environment: dict[str, str], binary: str | None) -> None:
    settings = local_settings(path, None, environment)
    assert (settings.binary, settings.spawn_timeout_ms, settings.request_timeout_ms) == (binary, 8000, 30_000)
