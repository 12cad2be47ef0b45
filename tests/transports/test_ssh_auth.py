"""Logging in: password, keys, agent, keyboard-interactive, and what is told when it fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from fixtures.servers.inprocess_ssh import USER, InProcessSsh, Login, running_ssh_server
from fixtures.servers.programs import require_program
from transports.errors import AuthFailed, ConnectFailed, InvalidOption
from transports.receiver import QueueReceiver
from transports.ssh import Auth, HostKeys, SshChannel, SshOptions

PASSPHRASE = "correct horse"


@pytest.fixture(scope="module")
def key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


@asynccontextmanager
async def logged_in(server: InProcessSsh, auth: Auth, **more: Any) -> AsyncIterator[SshChannel]:
    fields = {"use_openssh_config": False, "host_keys": HostKeys("disabled"), **more}
    channel = SshChannel(SshOptions(server.host, server.port, USER, auth, **fields))
    try:
        await channel.open(QueueReceiver())
        yield channel
    finally:
        await channel.close()


async def refused(server: InProcessSsh, auth: Auth, **more: Any) -> AuthFailed:
    with pytest.raises(AuthFailed) as caught:
        async with logged_in(server, auth, **more):
            pass
    return caught.value


async def test_a_password(tmp_path: Path) -> None:
    async with running_ssh_server(Login(password="pw")) as server:
        for method in ("password", "auto"):
            async with logged_in(server, Auth(method, "pw")):
                assert server.attempts.pop() == ("password", "pw")


async def test_a_wrong_password_says_what_the_server_offers(key: asyncssh.SSHKey) -> None:
    async with running_ssh_server(Login(password="pw", key=key)) as server:
        error = await refused(server, Auth("password", "wr0ng"))
    assert error.details["offered"] == ["publickey", "password"]
    assert error.details["tried"] == ["password"]
    assert "the server offers publickey, password" in error.message
    assert USER in error.message
    assert "wr0ng" not in str(error) + repr(error.details)
    assert server.attempts == [("password", "wr0ng")]


async def test_a_wrong_password_is_sent_once() -> None:
    """A server with both methods would count two failures, and some lock the account at the third."""
    async with running_ssh_server(Login(password="pw", rounds=[["Password: "]], answers=["pw"])) as server:
        error = await refused(server, Auth("password", "wrong"))
        assert server.attempts == [("keyboard-interactive", "wrong")]
    assert not error.details["prompts"]


async def test_a_server_that_drops_the_line_at_a_wrong_password() -> None:
    async with running_ssh_server(Login(password="pw", drops_line=True)) as server:
        error = await refused(server, Auth("password", "wrong"))
    assert error.details["tried"] == ["password"]


async def test_nothing_to_log_in_with_says_what_to_give(key: asyncssh.SSHKey) -> None:
    async with running_ssh_server(Login(password="pw", key=key)) as server:
        error = await refused(server, Auth())
    assert "private_key_path" in error.message
    assert "a password" in error.message
    assert error.details["tried"] == []


@pytest.mark.parametrize(
    "rounds",
    [
        [["Password: "]],
        [["admin@switch's password:"]],
        [["Enter PASSCODE:"]],
        [["Password: ", "Enable Password: "]],
        [[], ["Password:"], []],
    ],
)
async def test_prompts_for_the_password_are_answered(rounds: list[list[str]]) -> None:
    answers = ["pw" for prompts in rounds for _ in prompts]
    async with (
        running_ssh_server(Login(rounds=rounds, answers=answers)) as server,
        logged_in(server, Auth("password", "pw")),
    ):
        assert [answer for _, answer in server.attempts] == answers


@pytest.mark.parametrize(
    ("rounds", "asked"),
    [
        ([["Verification code: "]], ["Verification code:"]),
        ([["Password: ", "Token\x1b[2J:"]], ["Token [2J:"]),
        ([["Password: "], ["Duo passcode or option (1-3):", "New password:"]], ["New password:"]),
        ([["One-time password:"]], ["One-time password:"]),
        ([["x" * 500]], ["x" * 79 + "…"]),
    ],
)
async def test_other_prompts_are_named(rounds: list[list[str]], asked: list[str]) -> None:
    async with running_ssh_server(Login(rounds=rounds, answers=["?"])) as server:
        error = await refused(server, Auth("auto", "pw"))
    assert error.details["prompts"] == asked
    assert all(f'"{prompt}"' in error.message for prompt in asked)


async def test_questions_are_named_even_without_a_password() -> None:
    async with running_ssh_server(Login(rounds=[["Token:"]], answers=["?"])) as server:
        assert (await refused(server, Auth())).details["prompts"] == ["Token:"]


async def test_after_a_question_that_cannot_be_answered_the_password_is_tried() -> None:
    async with (
        running_ssh_server(Login(password="pw", rounds=[["Token:"]], answers=["?"])) as server,
        logged_in(server, Auth("auto", "pw")),
    ):
        assert server.attempts == [("password", "pw")]


def write_key(path: Path, key: asyncssh.SSHKey, passphrase: str | None = None, file_format: str = "openssh") -> str:
    # The fewest rounds that bcrypt takes without a warning: the tests are to be quick, not the keys to be safe.
    key.write_private_key(path, file_format, passphrase, rounds=50)
    path.chmod(0o600)
    return str(path)


@pytest.mark.parametrize("file_format", ["openssh", "pkcs8-pem"])
@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
async def test_a_key(tmp_path: Path, key: asyncssh.SSHKey, file_format: str, passphrase: str | None) -> None:
    path = write_key(tmp_path / "key", key, passphrase, file_format)
    pem = Path(path).read_text()
    async with running_ssh_server(Login(key=key)) as server:
        for auth in (
            Auth("private_key", private_key_path=path, passphrase=passphrase),
            Auth("private_key", private_key_pem=pem, passphrase=passphrase),
            Auth("auto", private_key_pem=pem.rstrip(), passphrase=passphrase),
        ):
            async with logged_in(server, auth):
                pass


@pytest.mark.parametrize("file_format", ["openssh", "pkcs8-pem"])
async def test_an_encrypted_key_needs_its_passphrase(tmp_path: Path, key: asyncssh.SSHKey, file_format: str) -> None:
    path = write_key(tmp_path / "key", key, PASSPHRASE, file_format)
    async with running_ssh_server(Login(key=key)) as server:
        error = await refused(server, Auth("private_key", private_key_path=path))
        assert "encrypted; give its passphrase" in error.message
        assert path in error.message
        error = await refused(server, Auth("private_key", private_key_pem=Path(path).read_text(), passphrase="wr0ng"))
        assert "passphrase is wrong" in error.message
        assert "wr0ng" not in error.message
        assert server.connections == 0


@pytest.mark.parametrize(
    "auth",
    [
        Auth("private_key", private_key_path="/nowhere/key"),
        Auth("private_key", private_key_pem="no key"),
        Auth("private_key", private_key_pem=""),
        Auth("private_key"),
    ],
)
async def test_what_is_no_key_is_an_invalid_option(auth: Auth) -> None:
    async with running_ssh_server(Login(password="pw")) as server:
        with pytest.raises(InvalidOption) as caught:
            async with logged_in(server, auth):
                pass
    assert "no key" not in caught.value.message.replace("no key;", "")


async def test_a_key_that_is_not_authorised(key: asyncssh.SSHKey) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519")
    async with running_ssh_server(Login(key=other, password="pw")) as server:
        pem = key.export_private_key().decode()
        error = await refused(server, Auth("private_key", "pw", pem))
        assert error.details["tried"] == ["publickey"]
        assert not server.attempts
        async with logged_in(server, Auth("auto", "pw", pem)):
            assert server.attempts == [("password", "pw")]


@pytest.fixture
def agent(tmp_path: Path, key: asyncssh.SSHKey, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An ssh-agent that has the key."""
    path = str(tmp_path / "agent")
    program, add = (require_program(name, "openssh-client") for name in ("ssh-agent", "ssh-add"))
    process = subprocess.Popen([program, "-D", "-a", path], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        environment = {**os.environ, "SSH_AUTH_SOCK": path}
        file = write_key(tmp_path / "in_agent", key)
        subprocess.run([add, "-q", file], check=True, env=environment)
        Path(file).unlink()
        monkeypatch.setenv("SSH_AUTH_SOCK", path)
        yield path
    finally:
        process.terminate()
        process.communicate()


async def test_the_agent(agent: str, key: asyncssh.SSHKey) -> None:
    async with running_ssh_server(Login(key=key)) as server:
        for auth in (Auth(), Auth("agent")):
            async with logged_in(server, auth):
                pass
            async with logged_in(server, auth, use_openssh_config=True):
                pass


async def test_the_agent_is_left_alone_by_the_other_methods(agent: str, key: asyncssh.SSHKey) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    async with running_ssh_server(Login(key=key, password="pw")) as server:
        assert (await refused(server, Auth("password", "wrong"))).details["tried"] == ["password"]
        await refused(server, Auth("private_key", private_key_pem=other))


async def test_the_agent_method_uses_the_agent_alone(agent: str, tmp_path: Path) -> None:
    only_in_file = asyncssh.generate_private_key("ssh-ed25519")
    path = write_key(tmp_path / "key", only_in_file)
    async with running_ssh_server(Login(key=only_in_file, password="pw")) as server:
        await refused(server, Auth("agent", "pw", private_key_path=path))
        assert not server.attempts


@pytest.mark.parametrize("path", [None, "/nowhere/agent"])
async def test_no_agent(path: str | None, key: asyncssh.SSHKey, monkeypatch: pytest.MonkeyPatch) -> None:
    if path is not None:
        monkeypatch.setenv("SSH_AUTH_SOCK", path)
    async with running_ssh_server(Login(key=key, password="pw")) as server:
        assert "ssh-add" in (await refused(server, Auth("agent"))).message
        async with logged_in(server, Auth("auto", "pw")):
            pass


async def test_the_agent_of_the_configuration_and_only_its_identities(
    agent: str, key: asyncssh.SSHKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK")
    config, public = tmp_path / "config", tmp_path / "id.pub"
    key.write_public_key(public)
    async with running_ssh_server(Login(key=key)) as server:
        config.write_text(f"IdentityAgent {agent}\nIdentitiesOnly yes\nIdentityFile {tmp_path}/id\n")
        async with logged_in(server, Auth(), use_openssh_config=True, config_path=str(config)):
            pass
        asyncssh.generate_private_key("ssh-ed25519").write_public_key(public)
        await refused(server, Auth(), use_openssh_config=True, config_path=str(config))
        public.unlink()
        await refused(server, Auth(), use_openssh_config=True, config_path=str(config))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    return tmp_path


async def test_keys_of_the_home_are_used_with_the_configuration_only(home: Path, key: asyncssh.SSHKey) -> None:
    write_key(home / ".ssh" / "id_rsa", asyncssh.generate_private_key("ssh-ed25519"), PASSPHRASE)
    (home / ".ssh" / "id_ecdsa").write_text("broken")
    write_key(home / ".ssh" / "id_ed25519", key)
    async with running_ssh_server(Login(key=key)) as server:
        for auth in (Auth(), Auth("private_key")):
            async with logged_in(server, auth, use_openssh_config=True):
                pass
        assert (await refused(server, Auth())).details["tried"] == []


async def test_a_named_key_is_the_only_one_tried(home: Path, key: asyncssh.SSHKey) -> None:
    write_key(home / ".ssh" / "id_ed25519", key)
    other = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    async with running_ssh_server(Login(key=key)) as server:
        await refused(server, Auth(private_key_pem=other), use_openssh_config=True)


async def test_a_path_may_start_in_the_home(home: Path, key: asyncssh.SSHKey) -> None:
    write_key(home / "key", key)
    async with running_ssh_server(Login(key=key)) as server, logged_in(server, Auth("private_key", private_key_path="~/key")):
        pass


async def test_the_banner_tells_version_and_greeting() -> None:
    login = Login(password="pw", banner="Authorised\r\nusers only\r\n")
    async with (
        running_ssh_server(login, server_version="Switch_1.0") as server,
        logged_in(server, Auth("password", "pw")) as channel,
    ):
        assert channel.server_banner == "SSH-2.0-Switch_1.0\nAuthorised\nusers only"


# cryptography warns of finite-field Diffie-Hellman, which is all that such a device has.
@pytest.mark.filterwarnings("ignore:Diffie-Hellman over finite fields")
async def test_old_algorithms_are_for_those_who_ask() -> None:
    rsa = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
    old: dict[str, Any] = {
        "server_host_keys": [rsa],
        "kex_algs": ["diffie-hellman-group1-sha1"],
        "encryption_algs": ["aes128-cbc"],
        "mac_algs": ["hmac-md5"],
        "signature_algs": ["ssh-rsa"],
    }
    async with running_ssh_server(Login(password="pw"), **old) as server:
        with pytest.raises(ConnectFailed, match="legacy_algorithms"):
            async with logged_in(server, Auth("password", "pw")):
                pass
        async with logged_in(server, Auth("password", "pw"), legacy_algorithms=True):
            pass
