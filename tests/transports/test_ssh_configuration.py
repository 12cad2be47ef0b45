"""Settings of the OpenSSH configuration that change how a session starts: RemoteCommand and ProxyCommand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.inprocess_ssh import LoginPolicy, running_ssh_server
from fixtures.servers.programs import require_program
from fixtures.ssh import open_channel, options_for
from transports.caller import Caller, on_behalf_of
from transports.errors import ConnectFailed, ConnectTimeout
from transports.ssh import HostKeyOptions, SshChannel
from transports.ssh.channel import SECURITY_WARNING

PASSWORD = LoginPolicy(password="pw")
#: A relay that also prints to stderr.
RELAY = "bash -c 'echo connecting >&2; exec 3<>/dev/tcp/%h/%p; cat <&3 & exec cat >&3'"


@pytest.fixture
def configured(tmp_path: Path) -> Any:
    def fields(text: str) -> dict[str, Any]:
        (tmp_path / "config").write_text(text)
        return {"use_openssh_config": True, "config_path": str(tmp_path / "config")}

    return fields


@pytest.mark.parametrize(("given", "runs"), [(None, "uptime -p"), ("id", "id")])
async def test_remote_command_runs_unless_a_command_is_given(configured: Any, given: str | None, runs: str) -> None:
    async with (
        running_ssh_server(PASSWORD) as server,
        open_channel(options_for(server.port, command=given, **configured("RemoteCommand uptime -p\n"))),
    ):
        await server.wait_until(lambda: bool(server.shells))
        assert server.shells[0].channel.get_command() == runs


async def test_proxy_command_connects_although_it_prints_to_stderr(configured: Any) -> None:
    async with (
        running_ssh_server(PASSWORD) as server,
        open_channel(options_for(server.port, **configured(f"ProxyCommand {RELAY}\n"))) as (channel, receiver),
    ):
        await channel.send(b"through")
        await receiver.receive_until(b"through")


@pytest.mark.parametrize(
    "script", ["echo no route to the moon >&2; exit 1", "exec >&-; echo no route to the moon >&2; sleep 60"]
)
async def test_stderr_of_failed_proxy_command_is_in_the_error(configured: Any, script: str) -> None:
    with pytest.raises(ConnectFailed, match='its ProxyCommand printed "no route to the moon"') as caught:
        async with open_channel(options_for(1, **configured(f"ProxyCommand sh -c '{script}'\n"))):
            pass
    assert caught.value.hint == "check the ProxyCommand of the SSH configuration"


async def test_stderr_of_silent_proxy_command_is_in_the_timeout(configured: Any) -> None:
    fields = configured("ProxyCommand sh -c 'echo waiting for a token >&2; exec sleep 60'\n")
    with pytest.raises(ConnectTimeout, match='its ProxyCommand printed "waiting for a token"'):
        async with open_channel(options_for(1, connect_timeout_s=1, **fields)):
            pass


@pytest.mark.parametrize("shell", [None, "sh", "bash", "dash", "zsh", "fish", "ksh", "mksh"])
async def test_missing_proxy_command_raises_connect_failed_with_the_words_of_the_shell(
    configured: Any, shell: str | None
) -> None:
    env = {name: value for name, value in os.environ.items() if name != "SHELL"}
    env |= {} if shell is None else {"SHELL": require_program(shell, shell)}
    with (
        on_behalf_of(Caller("/", env)),
        pytest.raises(ConnectFailed, match=r'its ProxyCommand printed ".*/nowhere/proxy') as caught,
    ):
        async with open_channel(options_for(1, **configured("ProxyCommand /nowhere/proxy\n"))):
            pass
    assert caught.value.hint == "check the ProxyCommand of the SSH configuration"


@pytest.mark.parametrize("setting", ["ProxyCommand $RELAY %h %p 2>/dev/null", "ProxyCommand = env PROFILE=blue relay '%h' %p"])
async def test_proxy_command_runs_in_shell_with_environment_of_caller(configured: Any, tmp_path: Path, setting: str) -> None:
    relay = tmp_path / "relay"
    relay.write_text('#!/bin/bash\n[ "$PROFILE" = blue ] || exit 1\nexec 3<>/dev/tcp/$1/$2; cat <&3 & exec cat >&3\n')
    relay.chmod(0o755)
    env = {**os.environ, "RELAY": str(relay), "PROFILE": "blue", "SHELL": "/bin/sh", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    fields = configured(f"{setting}\n")
    async with running_ssh_server(PASSWORD) as server:
        with on_behalf_of(Caller(str(tmp_path), env)):
            async with open_channel(options_for(server.port, **fields)):
                pass
        with pytest.raises(ConnectFailed):
            async with open_channel(options_for(server.port, **fields)):
                pass


async def test_variables_of_send_env_and_set_env_are_sent_with_those_of_the_call(configured: Any) -> None:
    fields = configured("SetEnv A=1 B=2\nSendEnv LAB_*\n")
    async with running_ssh_server(PASSWORD) as server:
        with on_behalf_of(Caller("/", {**os.environ, "LAB_NAME": "x", "OTHER": "y"})):
            async with open_channel(options_for(server.port, env={"B": "3"}, **fields)):
                await server.wait_until(lambda: bool(server.shells))
                assert dict(server.shells[0].channel.get_environment()) == {"A": "1", "B": "3", "LAB_NAME": "x"}


@pytest.mark.parametrize(
    ("host_keys", "warning"),
    [
        (HostKeyOptions("disabled"), SECURITY_WARNING),
        (HostKeyOptions("disabled", fingerprint="SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"), None),
        (HostKeyOptions(), None),
    ],
)
def test_unchecked_host_key_has_security_warning(host_keys: HostKeyOptions, warning: str | None) -> None:
    assert SshChannel(options_for(22, host_keys=host_keys)).security_warning == warning
