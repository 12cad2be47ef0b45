"""The host key check: the policies, a pinned fingerprint, known_hosts files, and the errors."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from fixtures.servers.inprocess_ssh import HOST, USER, FakeSshd, LoginPolicy, running_ssh_server
from transports.errors import ConnectFailed, HostKeyMismatch, InvalidOption
from transports.receiver import QueueReceiver
from transports.ssh import HostKeyOptions, HostKeyPolicy, SshAuth, SshChannel, SshConnectOptions
from transports.ssh.host_keys import format_key, host_name

LOGIN = LoginPolicy(password="pw")


@pytest.fixture
async def server() -> AsyncIterator[FakeSshd]:
    async with running_ssh_server(LOGIN) as server:
        yield server


@pytest.fixture
def known_hosts(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "known_hosts"


async def open_with(server: FakeSshd, host_keys: HostKeyOptions, host: str = HOST, **more: Any) -> None:
    """Open and close a channel."""
    more = {"auth": SshAuth("password", "pw"), "use_openssh_config": False, **more}
    options = SshConnectOptions(host, server.port, USER, host_keys=host_keys, **more)
    channel = SshChannel(options)
    try:
        await channel.open(QueueReceiver())
    finally:
        await channel.close()


async def refused(server: FakeSshd, host_keys: HostKeyOptions, **more: Any) -> HostKeyMismatch:
    """Return the error of an open that must fail; check that no password was sent."""
    with pytest.raises(HostKeyMismatch) as caught:
        await open_with(server, host_keys, **more)
    assert not server.attempts
    return caught.value


def other_key() -> str:
    """Return the type and data of a new key, as in an entry."""
    return format_key(asyncssh.generate_private_key("ssh-ed25519"))


def write(path: Path, text: str) -> HostKeyOptions:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return HostKeyOptions(known_hosts_path=str(path))


async def test_host_key_strict_accepts_known_key(server: FakeSshd, known_hosts: Path) -> None:
    await open_with(server, write(known_hosts, server.known_hosts_line))


async def test_host_key_strict_rejects_unknown_host(server: FakeSshd, known_hosts: Path) -> None:
    error = await refused(server, HostKeyOptions(known_hosts_path=str(known_hosts)))
    fingerprint = server.host_key.get_fingerprint()
    assert error.details == {
        "reason": "unknown",
        "host": HOST,
        "port": server.port,
        "fingerprint": fingerprint,
        "key_type": "ssh-ed25519",
        "expected": [],
        "known_hosts_path": str(known_hosts),
    }
    assert fingerprint in error.message
    assert "accept_new" in (error.hint or "")
    assert fingerprint in (error.hint or "")
    assert not known_hosts.exists()


async def test_host_key_strict_without_known_hosts_file_rejects(server: FakeSshd) -> None:
    error = await refused(server, HostKeyOptions())
    assert error.details["known_hosts_path"] is None
    assert "no known_hosts file" in error.message


@pytest.mark.parametrize("policy", ["strict", "accept_new"])
async def test_host_key_changed_is_rejected(server: FakeSshd, known_hosts: Path, policy: HostKeyPolicy) -> None:
    old = asyncssh.generate_private_key("ssh-ed25519")
    text = f"[{HOST}]:{server.port} {format_key(old)}\n"
    write(known_hosts, text)
    error = await refused(server, HostKeyOptions(policy, str(known_hosts)))
    assert error.details["reason"] == "changed"
    assert error.details["fingerprint"] == server.host_key.get_fingerprint()
    assert error.details["expected"] == [old.get_fingerprint()]
    assert f'ssh-keygen -R "[{HOST}]:{server.port}" -f "{known_hosts}"' in (error.hint or "")
    assert known_hosts.read_text() == text


@pytest.mark.parametrize("policy", ["strict", "accept_new"])
async def test_host_key_of_other_type_counts_as_changed(tmp_path: Path, policy: HostKeyPolicy) -> None:
    rsa = asyncssh.generate_private_key("ecdsa-sha2-nistp256").export_public_key("openssh").decode()
    async with running_ssh_server(LOGIN) as server:
        host_keys = write(tmp_path / "known", f"[{HOST}]:{server.port} {rsa}")
        error = await refused(server, HostKeyOptions(policy, host_keys.known_hosts_path))
    assert error.details["reason"] == "changed"


async def test_host_key_accept_new_records_key(server: FakeSshd, known_hosts: Path) -> None:
    await open_with(server, HostKeyOptions("accept_new", str(known_hosts)))
    assert known_hosts.read_text() == server.known_hosts_line
    assert stat.S_IMODE(known_hosts.stat().st_mode) == 0o600
    assert stat.S_IMODE(known_hosts.parent.stat().st_mode) == 0o700
    await open_with(server, HostKeyOptions("strict", str(known_hosts)))
    await open_with(server, HostKeyOptions("accept_new", str(known_hosts)))
    assert known_hosts.read_text() == server.known_hosts_line


async def test_host_key_accept_new_keeps_existing_lines(server: FakeSshd, known_hosts: Path) -> None:
    write(known_hosts, "# mine\nrouter ssh-rsa unreadable\nno newline at the end")
    known_hosts.chmod(0o644)
    await open_with(server, HostKeyOptions("accept_new", str(known_hosts)))
    expected = "# mine\nrouter ssh-rsa unreadable\nno newline at the end\n" + server.known_hosts_line
    assert known_hosts.read_text() == expected
    assert stat.S_IMODE(known_hosts.stat().st_mode) == 0o644


async def test_host_key_accept_new_without_user_file_is_strict(server: FakeSshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    machines_file = tmp_path / "global"
    config.write_text(f"UserKnownHostsFile none\nGlobalKnownHostsFile {machines_file}\n")
    error = await refused(server, HostKeyOptions("accept_new"), config_path=str(config), use_openssh_config=True)
    assert error.details["reason"] == "unknown"
    assert not machines_file.exists()


async def test_host_key_concurrent_accept_new_records_once(server: FakeSshd, known_hosts: Path) -> None:
    await asyncio.gather(*(open_with(server, HostKeyOptions("accept_new", str(known_hosts))) for _ in range(5)))
    assert known_hosts.read_text() == server.known_hosts_line


async def test_host_key_recorded_differently_during_connect_is_rejected(tmp_path: Path) -> None:
    """Another session may record a different key after the file was read."""
    known_hosts = tmp_path / "known"
    async with running_ssh_server(LOGIN) as server:
        text = f"[{HOST}]:{server.port} {other_key()}\n"

        class Late(asyncssh.SSHServer):
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                known_hosts.write_text(text)

        acceptor = await asyncssh.listen(HOST, 0, server_factory=Late, server_host_keys=[server.host_key], gss_host=None)
        late = FakeSshd(acceptor.get_port(), server.host_key, LOGIN)
        text = f"[{HOST}]:{late.port} {other_key()}\n"
        error = await refused(late, HostKeyOptions("accept_new", str(known_hosts)))
        acceptor.close()
        await acceptor.wait_closed()
    assert error.details["reason"] == "changed"
    assert known_hosts.read_text() == text


async def test_host_key_accept_new_with_unwritable_file_raises_connect_failed(server: FakeSshd, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "known_hosts"
    with pytest.raises(ConnectFailed, match="cannot record the host key") as caught:
        await open_with(server, HostKeyOptions("accept_new", str(path)))
    assert str(path) in caught.value.message
    assert "known_hosts_path" in (caught.value.hint or "")
    assert not server.attempts


async def test_host_key_with_unreadable_known_hosts_raises_invalid_option(server: FakeSshd, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="known_hosts file"):
        await open_with(server, HostKeyOptions("accept_new", str(tmp_path)))


async def test_host_key_disabled_accepts_any_key_and_records_none(server: FakeSshd, known_hosts: Path) -> None:
    await open_with(server, HostKeyOptions("disabled", str(known_hosts)))
    assert not known_hosts.exists()
    await open_with(
        server, HostKeyOptions("disabled", write(known_hosts, f"[{HOST}]:{server.port} {other_key()}\n").known_hosts_path)
    )


@pytest.mark.parametrize("policy", ["strict", "accept_new", "disabled"])
async def test_host_key_matching_pinned_fingerprint_is_accepted(
    server: FakeSshd, known_hosts: Path, policy: HostKeyPolicy
) -> None:
    write(known_hosts, f"[{HOST}]:{server.port} {other_key()}\n")
    await open_with(server, HostKeyOptions(policy, str(known_hosts), server.host_key.get_fingerprint()))
    await open_with(server, HostKeyOptions(policy, str(known_hosts), server.host_key.get_fingerprint() + "="))


@pytest.mark.parametrize("policy", ["strict", "accept_new", "disabled"])
async def test_host_key_different_from_pinned_fingerprint_is_rejected(
    server: FakeSshd, known_hosts: Path, policy: HostKeyPolicy
) -> None:
    write(known_hosts, server.known_hosts_line)
    pinned = "SHA256:" + "A" * 43
    error = await refused(server, HostKeyOptions(policy, str(known_hosts), pinned))
    assert error.details["reason"] == "fingerprint"
    assert error.details["fingerprint"] == server.host_key.get_fingerprint()
    assert error.details["expected"] == [pinned]
    assert pinned in error.message


def several_keys() -> list[asyncssh.SSHKey]:
    return [asyncssh.generate_private_key(kind) for kind in ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384")]


@asynccontextmanager
async def server_with(keys: list[asyncssh.SSHKey]) -> AsyncIterator[FakeSshd]:
    async with running_ssh_server(LOGIN, server_host_keys=keys) as server:
        yield server


async def test_host_key_pinned_may_be_any_of_several() -> None:
    keys = several_keys()
    async with server_with(keys) as server:
        for key in keys:
            await open_with(server, HostKeyOptions(fingerprint=key.get_fingerprint()))
        error = await _pinned_to_none(server)
    assert all(key.get_fingerprint() in error.message for key in keys)


async def _pinned_to_none(server: FakeSshd) -> HostKeyMismatch:
    with pytest.raises(HostKeyMismatch) as caught:
        await open_with(server, HostKeyOptions(fingerprint="SHA256:" + "A" * 43))
    return caught.value


async def test_host_key_known_one_of_several_is_requested(tmp_path: Path) -> None:
    keys = several_keys()
    async with server_with(keys) as server:
        for key in keys:
            data = key.export_public_key("openssh").decode()
            await open_with(server, write(tmp_path / "known", f"[{HOST}]:{server.port} {data}"))


async def test_host_key_revoked_is_rejected(server: FakeSshd, known_hosts: Path) -> None:
    error = await refused(server, write(known_hosts, server.known_hosts_line + "@revoked " + server.known_hosts_line))
    assert error.details["reason"] == "changed"
    assert "revoked" in error.message


async def test_host_key_certificate_of_known_authority_is_accepted(tmp_path: Path) -> None:
    authority, key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    certificate = authority.generate_host_certificate(key, "host", principals=[HOST])
    data = authority.export_public_key("openssh").decode()
    async with running_ssh_server(LOGIN, server_host_keys=[(key, certificate)]) as server:
        await open_with(server, write(tmp_path / "known", f"@cert-authority [{HOST}]:{server.port} {data}"))
        other = authority.generate_host_certificate(key, "host", principals=["other.example"])
    async with running_ssh_server(LOGIN, server_host_keys=[(key, other)]) as server:
        error = await refused(server, write(tmp_path / "known", f"@cert-authority [{HOST}]:{server.port} {data}"))
    assert error.details["reason"] == "unknown"


async def test_host_key_certificate_of_authority_without_port_is_accepted(tmp_path: Path) -> None:
    authority, key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    certificate = authority.generate_host_certificate(key, "host", principals=[HOST])
    async with running_ssh_server(LOGIN, server_host_keys=[(key, certificate)]) as server:
        await open_with(server, write(tmp_path / "known", f"@cert-authority {HOST} {format_key(authority)}"))


@pytest.mark.parametrize("fault", ["authority", "name", "date"])
async def test_host_key_certificate_that_is_not_accepted_stands_for_its_key(tmp_path: Path, fault: str) -> None:
    authority, other, key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(3))
    signer = other if fault == "authority" else authority
    principals = ["other.example"] if fault == "name" else [HOST]
    dates: dict[str, int] = {"valid_after": 1, "valid_before": 2} if fault == "date" else {}
    certificate = signer.generate_host_certificate(key, "host", principals=principals, **dates)
    async with running_ssh_server(LOGIN, server_host_keys=[(key, certificate)]) as server:
        name = f"[{HOST}]:{server.port}"
        trusted = f"@cert-authority {name} {format_key(authority)}\n"
        await open_with(server, write(tmp_path / "known", f"{trusted}{name} {format_key(key)}\n"))
        unknown = write(tmp_path / "known", f"{trusted}{name} {other_key()}\n")
        attempts = len(server.attempts)
        with pytest.raises(HostKeyMismatch):
            await open_with(server, unknown)
        revoked = write(tmp_path / "known", f"{trusted}{name} {format_key(key)}\n@revoked * {format_key(key)}\n")
        with pytest.raises(HostKeyMismatch, match="revoked"):
            await open_with(server, revoked)
        assert len(server.attempts) == attempts


def configured(tmp_path: Path, known: str, config: str, policy: HostKeyPolicy = "strict") -> dict[str, Any]:
    """Return the options under a configuration with a known_hosts file."""
    (tmp_path / "known").write_text(known)
    path = tmp_path / "config"
    path.write_text(f"UserKnownHostsFile {tmp_path}/known\nGlobalKnownHostsFile none\n{config}\n")
    return {"host_keys": HostKeyOptions(policy), "use_openssh_config": True, "config_path": str(path)}


@pytest.mark.parametrize(
    ("setting", "signature", "accepted"),
    [
        ("", "rsa-sha2-512", True),
        ("", "ssh-rsa", False),
        ("CASignatureAlgorithms rsa-sha2-256", "rsa-sha2-512", False),
        ("CASignatureAlgorithms +ssh-rsa", "ssh-rsa", True),
        ("CASignatureAlgorithms -rsa-sha2-512", "rsa-sha2-512", False),
    ],
)
async def test_host_key_certificate_needs_accepted_signature(
    tmp_path: Path, setting: str, signature: str, accepted: bool
) -> None:
    authority = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
    key = asyncssh.generate_private_key("ssh-ed25519")
    certificate = authority.generate_host_certificate(key, "host", principals=[HOST], sig_alg=signature)
    async with running_ssh_server(LOGIN, server_host_keys=[(key, certificate)]) as server:
        trusted = f"@cert-authority * {format_key(authority)}\n"
        options = configured(tmp_path, trusted, setting)
        if accepted:
            await open_with(server, **options)
        else:
            await refused(server, **options)
            # Its key may be known.
            await open_with(server, **configured(tmp_path, f"{trusted}* {format_key(key)}\n", setting))


async def test_signatures_of_certificates_do_not_limit_the_login(tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
    auth = SshAuth("private_key", private_key_pem=key.export_private_key("openssh").decode())
    async with running_ssh_server(LoginPolicy(key=key)) as server:
        options = configured(tmp_path, server.known_hosts_line, "CASignatureAlgorithms ssh-ed25519")
        await open_with(server, **options, auth=auth)


@pytest.mark.parametrize("setting", ["+ssh-rsa", "-ssh-dss", "ssh-ed25519,rsa-sha2-512"])
async def test_host_key_algorithms_of_known_keys_come_first_in_a_configured_list(tmp_path: Path, setting: str) -> None:
    keys = [asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-rsa", key_size=2048)]
    async with running_ssh_server(LOGIN, server_host_keys=keys) as server:
        known = f"[{HOST}]:{server.port} {format_key(keys[1])}\n"
        await open_with(server, **configured(tmp_path, known, f"HostKeyAlgorithms {setting}"))


@pytest.mark.parametrize("way", ["accept_new", "disabled", "pinned"])
async def test_host_key_certificate_without_authority_is_judged_by_its_key(tmp_path: Path, way: str) -> None:
    authority, key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    certificate = authority.generate_host_certificate(key, "host", principals=[HOST])
    only = "HostKeyAlgorithms ssh-ed25519-cert-v01@openssh.com"
    async with running_ssh_server(LOGIN, server_host_keys=[(key, certificate)]) as server:
        for setting in ("HostKeyAlgorithms +ssh-rsa", only):
            options = configured(tmp_path, "", setting, "strict" if way == "pinned" else way)  # type: ignore[arg-type]
            if way == "pinned":
                options["host_keys"] = HostKeyOptions(fingerprint=key.get_fingerprint())
            await open_with(server, **options)
            assert (tmp_path / "known").read_text().split()[1:] == (format_key(key).split() if way == "accept_new" else [])


async def test_host_key_different_from_pinned_under_configured_list_is_rejected(server: FakeSshd, tmp_path: Path) -> None:
    options = configured(tmp_path, "", "HostKeyAlgorithms +ssh-rsa")
    options["host_keys"] = HostKeyOptions(fingerprint=asyncssh.generate_private_key("ssh-ed25519").get_fingerprint())
    assert (await refused(server, **options)).details["reason"] == "fingerprint"


async def test_host_key_of_port_22_is_accepted_on_other_ports(server: FakeSshd, known_hosts: Path) -> None:
    data = server.known_hosts_line.split(" ", 1)[1]
    await open_with(server, write(known_hosts, f"{HOST} {data}"))


async def test_host_key_of_port_22_does_not_make_other_ports_changed(server: FakeSshd, known_hosts: Path) -> None:
    """A console server has its own key on port 22, and those of the devices on other ports."""
    error = await refused(server, write(known_hosts, f"{HOST} {other_key()}\n"))
    assert error.details["reason"] == "unknown"
    await open_with(server, HostKeyOptions("accept_new", str(known_hosts)))


async def test_host_key_names_match_case_insensitively(server: FakeSshd, known_hosts: Path) -> None:
    data = server.known_hosts_line.split(" ", 1)[1]
    await open_with(server, write(known_hosts, f"[LOCALHOST]:1,[localhost]:{server.port} {data}"), host="LocalHost")


async def test_host_key_files_and_alias_come_from_configuration(server: FakeSshd, tmp_path: Path) -> None:
    known, config = tmp_path / "known", tmp_path / "config"
    config.write_text(f"UserKnownHostsFile {known}\nGlobalKnownHostsFile none\nHostKeyAlias rack\n")
    await open_with(server, HostKeyOptions("accept_new"), config_path=str(config), use_openssh_config=True)
    assert known.read_text() == "rack " + server.known_hosts_line.split(" ", 1)[1]
    await open_with(server, HostKeyOptions("strict"), config_path=str(config), use_openssh_config=True)


async def test_host_key_changed_for_alias_is_rejected(server: FakeSshd, tmp_path: Path) -> None:
    known, config = tmp_path / "known", tmp_path / "config"
    known.write_text(f"rack {other_key()}\n")
    config.write_text(f"UserKnownHostsFile /nowhere {known}\nHostKeyAlias rack\n")
    error = await refused(server, HostKeyOptions("accept_new"), config_path=str(config), use_openssh_config=True)
    assert error.details["reason"] == "changed"
    assert error.details["known_hosts_path"] == str(known)


def test_host_name_with_default_port_has_no_brackets() -> None:
    assert host_name("Host", 22) == "host"
    assert host_name("Host", 2022) == "[host]:2022"
