"""SSH login with keys from a file, from text, from the agent, and from ~/.ssh."""

from __future__ import annotations

import asyncio
import getpass
import os
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import asyncssh
import pytest

from fixtures.receiver import RecordingReceiver
from fixtures.servers.inprocess_ssh import USER, FakeSshd, LoginPolicy, running_ssh_server
from fixtures.servers.openssh import running_sshd
from fixtures.servers.programs import require_program
from fixtures.ssh import open_channel, options_for, options_for_sshd
from transports.caller import Caller, on_behalf_of
from transports.errors import AuthFailed
from transports.ssh import SshAuth, SshChannel, SshConnectOptions
from transports.ssh.endpoint import resolve
from transports.ssh.login_keys import login_keys

PASSPHRASE = "correct horse"


@pytest.fixture(scope="module")
def key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


async def refused(server: FakeSshd, auth: SshAuth, **more: Any) -> AuthFailed:
    with pytest.raises(AuthFailed) as caught:
        async with open_channel(options_for(server.port, auth=auth, **more)):
            pass
    return caught.value


def write_key(path: Path, key: asyncssh.SSHKey, passphrase: str | None = None, file_format: str = "openssh") -> str:
    # One round of bcrypt, for speed; asyncssh warns about it.
    with warnings.catch_warnings(action="ignore"):
        key.write_private_key(path, file_format, passphrase, rounds=1)
    path.chmod(0o600)
    return str(path)


@pytest.mark.parametrize("file_format", ["openssh", "pkcs8-pem"])
@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
async def test_login_with_key_succeeds(tmp_path: Path, key: asyncssh.SSHKey, file_format: str, passphrase: str | None) -> None:
    path = write_key(tmp_path / "key", key, passphrase, file_format)
    pem = Path(path).read_text()
    async with running_ssh_server(LoginPolicy(key=key)) as server:
        for auth in (
            SshAuth("private_key", private_key_path=path, passphrase=passphrase),
            SshAuth("private_key", private_key_pem=pem, passphrase=passphrase),
            SshAuth("auto", private_key_pem=pem.rstrip(), passphrase=passphrase),
        ):
            async with open_channel(options_for(server.port, auth=auth)):
                pass


@pytest.mark.parametrize("file_format", ["openssh", "pkcs8-pem"])
async def test_login_with_encrypted_key_needs_passphrase(tmp_path: Path, key: asyncssh.SSHKey, file_format: str) -> None:
    path = write_key(tmp_path / "key", key, PASSPHRASE, file_format)
    async with running_ssh_server(LoginPolicy(key=key)) as server:
        error = await refused(server, SshAuth("private_key", private_key_path=path))
        assert "is encrypted" in error.message
        assert "give its passphrase" in (error.hint or "")
        assert path in error.message
        error = await refused(server, SshAuth("private_key", private_key_pem=Path(path).read_text(), passphrase="wr0ng"))
        assert "passphrase is wrong" in error.message
        assert "wr0ng" not in error.message
        assert server.connections == 0


@pytest.mark.parametrize(
    "auth",
    [
        SshAuth("private_key", private_key_path="/nowhere/key"),
        SshAuth("private_key", private_key_pem="no key"),
        SshAuth("private_key", private_key_pem=""),
        SshAuth("private_key"),
    ],
)
async def test_login_with_missing_or_invalid_key_raises_auth_failed(auth: SshAuth) -> None:
    async with running_ssh_server(LoginPolicy(password="pw")) as server:
        error = await refused(server, auth)
    assert "no key" not in error.message
    assert not server.attempts


async def test_login_with_unauthorised_key_falls_back_only_in_auto(key: asyncssh.SSHKey) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519")
    async with running_ssh_server(LoginPolicy(key=other, password="pw")) as server:
        pem = key.export_private_key().decode()
        error = await refused(server, SshAuth("private_key", "pw", pem))
        assert error.details["tried"] == ["publickey"]
        assert not server.attempts
        async with open_channel(options_for(server.port, auth=SshAuth("auto", "pw", pem))):
            assert server.attempts == [("password", "pw")]


@pytest.fixture
def agent(key: asyncssh.SSHKey, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run an ssh-agent that holds the key; return its socket."""
    program, add = (require_program(name, "openssh-client") for name in ("ssh-agent", "ssh-add"))
    with TemporaryDirectory(prefix="agent-", dir="/tmp") as folder:  # the path of a socket must be short
        path = f"{folder}/socket"
        process = subprocess.Popen([program, "-D", "-a", path], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            process.stdout.readline()
            environment = {**os.environ, "SSH_AUTH_SOCK": path}
            file = write_key(Path(folder, "in_agent"), key)
            subprocess.run([add, "-q", file], check=True, env=environment)
            Path(file).unlink()
            monkeypatch.setenv("SSH_AUTH_SOCK", path)
            yield path
        finally:
            process.terminate()
            process.communicate()


async def test_login_with_agent_succeeds(agent: str, key: asyncssh.SSHKey) -> None:
    async with running_ssh_server(LoginPolicy(key=key)) as server:
        for auth in (SshAuth(), SshAuth("agent")):
            async with open_channel(options_for(server.port, auth=auth)):
                pass
            async with open_channel(options_for(server.port, auth=auth, use_openssh_config=True)):
                pass


async def test_named_key_is_tried_before_those_of_the_agent(agent: str, key: asyncssh.SSHKey) -> None:
    named = asyncssh.generate_private_key("ssh-ed25519")
    options = options_for(22, auth=SshAuth("auto", private_key_pem=named.export_private_key().decode()))
    async with login_keys(resolve(options)[-1]) as keys:
        assert [pair.public_data for pair in keys] == [named.public_data, key.public_data]


async def test_login_with_other_methods_does_not_use_agent(agent: str, key: asyncssh.SSHKey) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    async with running_ssh_server(LoginPolicy(key=key, password="pw")) as server:
        assert (await refused(server, SshAuth("password", "wrong"))).details["tried"] == ["password"]
        await refused(server, SshAuth("private_key", private_key_pem=other))


async def test_login_with_agent_method_uses_agent_only(agent: str, tmp_path: Path) -> None:
    only_in_file = asyncssh.generate_private_key("ssh-ed25519")
    path = write_key(tmp_path / "key", only_in_file)
    async with running_ssh_server(LoginPolicy(key=only_in_file, password="pw")) as server:
        await refused(server, SshAuth("agent", "pw", private_key_path=path))
        assert not server.attempts


@pytest.mark.parametrize("path", [None, "/nowhere/agent"])
async def test_login_without_agent_fails_for_agent_method_only(
    path: str | None, key: asyncssh.SSHKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path is not None:
        monkeypatch.setenv("SSH_AUTH_SOCK", path)
    async with running_ssh_server(LoginPolicy(key=key, password="pw")) as server:
        assert "ssh-add" in ((await refused(server, SshAuth("agent"))).hint or "")
        async with open_channel(options_for(server.port, auth=SshAuth("auto", "pw"))):
            pass


async def test_login_with_configured_agent_uses_configured_identities_only(
    agent: str, key: asyncssh.SSHKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK")
    config, public = tmp_path / "config", tmp_path / "id.pub"
    key.write_public_key(public)
    async with running_ssh_server(LoginPolicy(key=key)) as server:
        config.write_text(f"IdentityAgent {agent}\nIdentitiesOnly yes\nIdentityFile {tmp_path}/id\n")
        async with open_channel(options_for(server.port, auth=SshAuth(), use_openssh_config=True, config_path=str(config))):
            pass
        asyncssh.generate_private_key("ssh-ed25519").write_public_key(public)
        await refused(server, SshAuth(), use_openssh_config=True, config_path=str(config))
        public.unlink()
        await refused(server, SshAuth(), use_openssh_config=True, config_path=str(config))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    return tmp_path


async def test_login_uses_default_keys_and_skips_unusable_ones(home: Path, key: asyncssh.SSHKey) -> None:
    write_key(home / ".ssh" / "id_rsa", asyncssh.generate_private_key("ssh-ed25519"), PASSPHRASE)
    (home / ".ssh" / "id_ecdsa").write_text("broken")
    write_key(home / ".ssh" / "id_ed25519", key)
    async with running_ssh_server(LoginPolicy(key=key)) as server:
        for auth in (SshAuth(), SshAuth("private_key")):
            async with open_channel(options_for(server.port, auth=auth, use_openssh_config=True)):
                pass
        assert (await refused(server, SshAuth())).details["tried"] == []


def test_login_with_too_many_keys_hints_to_select_one(home: Path) -> None:
    for name in ("id_rsa", "id_ecdsa", "id_ed25519"):
        write_key(home / ".ssh" / name, asyncssh.generate_private_key("ssh-ed25519"))
    with running_sshd("MaxAuthTries 2") as sshd:
        options = options_for_sshd(sshd, auth=SshAuth(), use_openssh_config=True)
        with pytest.raises(AuthFailed, match="Too many authentication failures") as caught:
            asyncio.run(SshChannel(options).open(RecordingReceiver()))
    assert "if there are many keys, select one" in (caught.value.hint or "")


async def test_login_with_configured_certificate_succeeds(home: Path, key: asyncssh.SSHKey) -> None:
    authority = asyncssh.generate_private_key("ssh-ed25519")
    write_key(home / "key", key)
    certificate = authority.generate_user_certificate(key, "user", principals=[USER])
    certificate.write_certificate(home / "certificate")
    (home / ".ssh" / "config").write_text("IdentityFile ~/key\nCertificateFile /nowhere\nCertificateFile ~/certificate\n")
    login = LoginPolicy(authority=authority)
    async with (
        running_ssh_server(login) as server,
        open_channel(options_for(server.port, auth=SshAuth(), use_openssh_config=True)),
    ):
        pass


async def test_login_with_named_key_tries_no_other_key(home: Path, key: asyncssh.SSHKey) -> None:
    write_key(home / ".ssh" / "id_ed25519", key)
    other = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    async with running_ssh_server(LoginPolicy(key=key)) as server:
        await refused(server, SshAuth(private_key_pem=other), use_openssh_config=True)


async def test_login_key_path_expands_home(home: Path, key: asyncssh.SSHKey) -> None:
    write_key(home / "key", key)
    async with (
        running_ssh_server(LoginPolicy(key=key)) as server,
        open_channel(options_for(server.port, auth=SshAuth("private_key", private_key_path="~/key"))),
    ):
        pass


# Keys of the agent and certificates in files, as ssh(1) uses them


def add_to_agent(agent: str, folder: Path, *keys: asyncssh.SSHKey) -> None:
    for number, key in enumerate(keys):
        file = write_key(folder / f"for_agent{number}", key)
        subprocess.run(["ssh-add", "-q", file], check=True, env={**os.environ, "SSH_AUTH_SOCK": agent})
        Path(file).unlink()


def certify(authority: asyncssh.SSHKey, key: asyncssh.SSHKey, path: Path) -> asyncssh.SSHCertificate:
    certificate = authority.generate_user_certificate(key, "me", principals=[getpass.getuser(), USER])
    certificate.write_certificate(path)
    return certificate


def configure(home: Path, text: str) -> SshConnectOptions:
    path = home / ".ssh" / "config"
    path.write_text(text)
    path.chmod(0o600)
    return options_for(22, auth=SshAuth(), use_openssh_config=True)


async def order(options: SshConnectOptions) -> list[bytes]:
    """Return the public keys and certificates in the order in which they are tried."""
    endpoint = (await asyncio.to_thread(resolve, options))[-1]
    async with login_keys(endpoint) as keys:
        return [pair.public_data for pair in keys]


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256"])
@pytest.mark.parametrize("way", ["CertificateFile", "IdentityFile", "locked", "private_key_path"])
async def test_certificate_in_file_with_key_in_agent_logs_in_to_sshd(agent: str, home: Path, kind: str, way: str) -> None:
    authority, key = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key(kind)
    add_to_agent(agent, home, key)
    authority.write_public_key(home / "ca.pub")
    key.write_public_key(home / "me.pub")
    certify(authority, key, home / "me-cert.pub")
    if way in ("locked", "private_key_path"):
        write_key(home / "me", key, PASSPHRASE)
    lines = {"CertificateFile": "CertificateFile ~/me-cert.pub\n", "private_key_path": ""}
    configure(home, lines.get(way, "IdentityFile ~/me\nIdentitiesOnly yes\n"))
    auth = SshAuth(private_key_path="~/me") if way == "private_key_path" else SshAuth()
    trusted = f"TrustedUserCAKeys {home}/ca.pub\nAuthorizedKeysFile none\nMaxAuthTries 1"
    with running_sshd(trusted) as sshd:
        options = options_for_sshd(sshd, auth=auth, use_openssh_config=True)
        channel = SshChannel(options)
        await channel.open(RecordingReceiver())
        await channel.close()


async def test_identity_file_orders_keys_of_agent(agent: str, home: Path, key: asyncssh.SSHKey) -> None:
    second, third, in_file = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(3))
    add_to_agent(agent, home, second, third)
    third.write_public_key(home / "third.pub")
    second.write_public_key(home / "second.pub")
    write_key(home / "in_file", in_file)
    lines = "IdentityFile ~/third\nIdentityFile ~/in_file\nIdentityFile ~/second.pub\n"
    listed = [second.public_data, third.public_data]  # the named ones first, in the agent's order
    assert await order(configure(home, lines)) == [*listed, key.public_data, in_file.public_data]
    assert await order(configure(home, f"{lines}IdentitiesOnly yes\n")) == [*listed, in_file.public_data]
    assert await order(configure(home, "")) == [key.public_data, second.public_data, third.public_data]


async def test_identity_file_may_be_a_certificate_of_another_key(home: Path, key: asyncssh.SSHKey) -> None:
    write_key(home / "mine", key)
    authority = asyncssh.generate_private_key("ssh-ed25519")
    signed = certify(authority, key, home / "signed.pub")
    lines = "IdentityFile ~/signed.pub\nIdentityFile ~/mine\n"
    assert await order(configure(home, lines)) == [signed.public_data, key.public_data]


async def test_key_in_file_and_agent_is_tried_once(agent: str, home: Path, key: asyncssh.SSHKey) -> None:
    write_key(home / "mine", key)
    assert await order(configure(home, "IdentityFile ~/mine\n")) == [key.public_data]


async def test_certificate_is_tried_before_plain_keys(agent: str, home: Path, key: asyncssh.SSHKey) -> None:
    authority, other = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    write_key(home / "mine", other)
    own = certify(authority, other, home / "mine-cert.pub")
    of_agent = certify(authority, key, home / "agent-cert.pub")
    unusable = asyncssh.generate_private_key("ssh-ed25519")
    certify(authority, unusable, home / "unusable-cert.pub")
    lines = "IdentityFile ~/mine\nCertificateFile ~/agent-cert.pub\nCertificateFile ~/unusable-cert.pub\n"
    expected = [of_agent.public_data, own.public_data, key.public_data, other.public_data]
    assert await order(configure(home, lines)) == expected


async def test_key_with_no_accepted_algorithm_is_not_offered(agent: str, home: Path, key: asyncssh.SSHKey) -> None:
    ecdsa = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
    write_key(home / "mine", ecdsa)
    certificate = certify(ecdsa, ecdsa, home / "mine-cert.pub")
    lines = "IdentityFile ~/mine\nPubkeyAcceptedAlgorithms "
    assert await order(configure(home, f"{lines}-ssh-ed25519\n")) == [certificate.public_data, ecdsa.public_data]
    assert await order(configure(home, f"{lines}ssh-ed25519,ecdsa-sha2-nistp256\n")) == [key.public_data, ecdsa.public_data]
    assert await order(configure(home, f"{lines}*-cert-v01@openssh.com\n")) == [certificate.public_data]


@pytest.mark.parametrize("source", ["file", "agent", "certificate"])
@pytest.mark.parametrize("algorithm", ["rsa-sha2-256", "rsa-sha2-512"])
async def test_rsa_key_signs_with_accepted_algorithm(agent: str, home: Path, source: str, algorithm: str) -> None:
    rsa, authority = asyncssh.generate_private_key("ssh-rsa"), asyncssh.generate_private_key("ssh-ed25519")
    if source == "agent":
        add_to_agent(agent, home, rsa)
    else:
        write_key(home / "mine", rsa)
    if source == "certificate":
        certify(authority, rsa, home / "mine-cert.pub")
        algorithm += "-cert-v01@openssh.com"
    configure(home, f"IdentityFile ~/mine\nPubkeyAcceptedAlgorithms {algorithm}\n")
    (endpoint,) = await asyncio.to_thread(resolve, options_for(22, auth=SshAuth(), use_openssh_config=True))
    async with login_keys(endpoint) as pairs:
        (pair,) = pairs
        assert [one.decode() for one in pair.sig_algorithms] == [algorithm.partition("-cert")[0]]
        signature = await pair.sign_async(b"data") if isinstance(pair, asyncssh.SSHAgentKeyPair) else pair.sign(b"data")
        assert asyncssh.packet.SSHPacket(signature).get_string().decode() == algorithm.partition("-cert")[0]


async def test_agent_of_caller_is_used(agent: str, home: Path, key: asyncssh.SSHKey, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(home, "")
    monkeypatch.delenv("SSH_AUTH_SOCK")
    async with running_ssh_server(LoginPolicy(key=key)) as server:
        with on_behalf_of(Caller("/", {**os.environ, "SSH_AUTH_SOCK": agent})):
            async with open_channel(options_for(server.port, auth=SshAuth(), use_openssh_config=True)):
                pass
