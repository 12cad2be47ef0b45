"""Revoked host keys: @revoked lines, RevokedHostKeys and key revocation lists; lines of known_hosts read as by ssh(1)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.servers.inprocess_ssh import HOST, USER, FakeSshd, LoginPolicy, running_ssh_server
from fixtures.servers.programs import require_program
from transports.errors import ConnectFailed, ConnectTimeout, HostKeyMismatch, InvalidOption
from transports.receiver import QueueReceiver
from transports.ssh import HostKeyOptions, HostKeyPolicy, SshAuth, SshChannel, SshConnectOptions
from transports.ssh.endpoint import resolve
from transports.ssh.host_keys import HostKeyCheck, format_key
from transports.ssh.known_hosts import find_keys, matches, parse_lines, parse_revoked_keys

LOGIN = LoginPolicy(password="pw")
POLICIES = ["strict", "accept_new", "disabled", "pinned"]
COMMENTS = [b"rack 4", "Zürich".encode(), b"Z\xfcrich", "東京".encode(), b"\xff\xfe\x00"]


@pytest.fixture
async def server() -> AsyncIterator[FakeSshd]:
    async with running_ssh_server(LOGIN) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def key_of(server: FakeSshd) -> str:
    return format_key(server.host_key)


async def open_with(server: FakeSshd, folder: Path, config: str, policy: str = "strict", **fields: Any) -> None:
    """Open and close a channel under a configuration; the known_hosts file is `known`."""
    path = folder / ".ssh" / "config"
    path.write_text(f"UserKnownHostsFile {folder}/known\nGlobalKnownHostsFile none\n{config}\n")
    path.chmod(0o600)
    pinned = server.host_key.get_fingerprint() if policy == "pinned" else None
    host_keys = HostKeyOptions("strict" if policy == "pinned" else policy, None, pinned)  # type: ignore[arg-type]
    channel = SshChannel(SshConnectOptions(HOST, server.port, USER, SshAuth("password", "pw"), host_keys=host_keys, **fields))
    try:
        await channel.open(QueueReceiver())
    finally:
        await channel.close()


async def refused(server: FakeSshd, folder: Path, config: str, policy: str = "strict") -> HostKeyMismatch:
    """Return the error of an open that must fail; check that no password was sent."""
    with pytest.raises(HostKeyMismatch, match="revo") as caught:
        await open_with(server, folder, config, policy)
    assert not server.attempts
    return caught.value


@pytest.mark.parametrize("comment", COMMENTS)
async def test_known_key_with_any_comment_is_accepted(server: FakeSshd, folder: Path, comment: bytes) -> None:
    (folder / "known").write_bytes(server.known_hosts_line.encode().rstrip() + b" " + comment + b"\n")
    await open_with(server, folder, "")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("comment", COMMENTS)
async def test_revoked_line_with_any_comment_refuses(server: FakeSshd, folder: Path, comment: bytes, policy: str) -> None:
    known = server.known_hosts_line.encode()
    (folder / "known").write_bytes(known + b"@revoked * " + key_of(server).encode() + b" " + comment + b"\n")
    error = await refused(server, folder, "", policy)
    assert error.details["fingerprint"] == server.host_key.get_fingerprint()


def hashed(name: str) -> str:
    digest = hmac.new(b"s" * 20, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(b's' * 20).decode()}|{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize(
    "names",
    ["[LOCALHOST]:{port}", "[Local*]:{port}", "x,[localhost]:{port}", "?LOCALHOST?:*", "*,!other", "[localhost]:*", "HASHED"],
)
async def test_revoked_names_are_compared_as_by_ssh(server: FakeSshd, folder: Path, names: str) -> None:
    name = hashed(f"[localhost]:{server.port}") if names == "HASHED" else names.format(port=server.port)
    key = key_of(server)
    (folder / "known").write_text(f"[localhost]:{server.port} {key}\n@revoked {name} {key}\n")
    path = folder / ".ssh" / "config"
    path.write_text(f"UserKnownHostsFile {folder}/known\n")
    channel = SshChannel(SshConnectOptions("LocalHost", server.port, USER, SshAuth("password", "pw")))
    with pytest.raises(HostKeyMismatch, match="revoked"):
        await channel.open(QueueReceiver())
    await channel.close()


@pytest.mark.parametrize("names", ["other", "*,!127.0.0.1,![127.0.0.1]:*", "[127.0.0.1]:1", "127.0.0.[1]"])
async def test_revoked_line_of_other_names_has_no_effect(server: FakeSshd, folder: Path, names: str) -> None:
    (folder / "known").write_text(f"{server.known_hosts_line}@revoked {names} {key_of(server)}\n")
    await open_with(server, folder, "")


@pytest.mark.parametrize(
    "line",
    [
        "@revoked",
        "@revoked *",
        "@revoked * ssh-ed25519",
        "@revoked * ssh-ed25519 AAAA!",
        "@revoked |1|x|y k k",
        "@REVOKED * x y",
    ],
)
async def test_revoked_line_that_cannot_be_read_refuses(server: FakeSshd, folder: Path, line: str) -> None:
    (folder / "known").write_text(f"{server.known_hosts_line}{line}\n")
    with pytest.raises(InvalidOption, match="line 2, revokes a key"):
        await open_with(server, folder, "")
    assert not server.attempts


async def test_unreadable_line_that_revokes_nothing_has_no_effect(server: FakeSshd, folder: Path) -> None:
    (folder / "known").write_text(f"@moon * x\n@revoked other x y\nhost\nhost k !\n{server.known_hosts_line}")
    await open_with(server, folder, "")


async def test_revoked_line_with_key_cut_off_refuses(server: FakeSshd, folder: Path) -> None:
    (folder / "known").write_text(f"{server.known_hosts_line}@revoked * {key_of(server)[:-12]}\n")
    with pytest.raises(InvalidOption, match="line 2, revokes a key"):
        await open_with(server, folder, "")
    assert not server.attempts


async def test_key_type_without_revoked_key_is_requested_first(folder: Path) -> None:
    keys = [asyncssh.generate_private_key(kind) for kind in ("ssh-ed25519", "ecdsa-sha2-nistp256")]
    async with running_ssh_server(LOGIN, server_host_keys=keys) as server:
        known = "".join(f"[{HOST}]:{server.port} {format_key(key)}\n" for key in keys)
        (folder / "known").write_text(f"{known}@revoked * {format_key(keys[0])}\n")
        await open_with(server, folder, "")
        (folder / "known").write_text(f"{known}" + "".join(f"@revoked * {format_key(key)}\n" for key in keys))
        await refused_after(server, folder)


async def refused_after(server: FakeSshd, folder: Path) -> None:
    """Check that an open fails before another login than the earlier one."""
    attempts = len(server.attempts)
    with pytest.raises(HostKeyMismatch, match="revoked"):
        await open_with(server, folder, "")
    assert len(server.attempts) == attempts


@pytest.mark.parametrize("policy", POLICIES)
async def test_key_in_revoked_host_keys_refuses(server: FakeSshd, folder: Path, policy: str) -> None:
    (folder / "known").write_text(server.known_hosts_line)
    (folder / "revoked").write_text(f"# comment\n\n{key_of(server)} gesperrt, Müller\n")
    await refused(server, folder, "RevokedHostKeys ~/revoked", policy)


async def test_other_key_in_revoked_host_keys_has_no_effect(server: FakeSshd, folder: Path) -> None:
    (folder / "known").write_text(server.known_hosts_line)
    (folder / "revoked").write_text(format_key(asyncssh.generate_private_key("ssh-ed25519")))
    await open_with(server, folder, "RevokedHostKeys ~/revoked")


def cut_off(kind: str, count: int) -> str:
    """Return a public key without its last characters, which are still base64."""
    return format_key(asyncssh.generate_private_key(kind))[:-count]


@pytest.mark.parametrize(
    "content",
    [
        None,
        "ssh-ed25519 AAAA",
        "garbage",
        "SSHKRL\n\0garbage",
        cut_off("ssh-ed25519", 12),
        cut_off("ecdsa-sha2-nistp256", 8),
        cut_off("ssh-rsa", 20),
    ],
)
@pytest.mark.parametrize("policy", ["strict", "disabled"])
async def test_revoked_host_keys_that_cannot_be_read_refuse(
    server: FakeSshd, folder: Path, content: str | None, policy: str
) -> None:
    (folder / "known").write_text(server.known_hosts_line)
    if content is not None:
        (folder / "revoked").write_text(content)
    with pytest.raises(InvalidOption, match="cannot read the RevokedHostKeys file"):
        await open_with(server, folder, "RevokedHostKeys ~/revoked", policy)
    assert not server.attempts


def make_krl(folder: Path, *keys: asyncssh.SSHKey) -> None:
    for number, key in enumerate(keys):
        (folder / f"revoked{number}.pub").write_text(format_key(key) + "\n")
    files = [str(folder / f"revoked{number}.pub") for number in range(len(keys))]
    subprocess.run([require_program("ssh-keygen", "openssh-client"), "-q", "-k", "-f", str(folder / "krl"), *files], check=True)


async def test_key_in_revocation_list_refuses_and_other_connects(server: FakeSshd, folder: Path) -> None:
    (folder / "known").write_text(server.known_hosts_line)
    make_krl(folder, asyncssh.generate_private_key("ssh-ed25519"))
    await open_with(server, folder, "RevokedHostKeys ~/krl")
    server.attempts.clear()
    make_krl(folder, server.host_key)
    for policy in POLICIES:
        await refused(server, folder, "RevokedHostKeys ~/krl", policy)


async def test_revocation_list_without_ssh_keygen_refuses(
    server: FakeSshd, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "known").write_text(server.known_hosts_line)
    make_krl(folder, server.host_key)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InvalidOption, match="needs ssh-keygen"):
        await open_with(server, folder, "RevokedHostKeys ~/krl")


@pytest.mark.parametrize("revoked", ["key", "authority"])
@pytest.mark.parametrize("way", ["line", "list", "krl"])
async def test_certificate_of_revoked_key_or_authority_refuses(folder: Path, revoked: str, way: str) -> None:
    authority, key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    certificate = authority.generate_host_certificate(key, "host", principals=[HOST])
    bad = key if revoked == "key" else authority
    known = f"@cert-authority * {format_key(authority)} Prüfstelle\n"
    async with running_ssh_server(LOGIN, server_host_keys=[(key, certificate)]) as server:
        (folder / "known").write_text(known)
        await open_with(server, folder, "")
        server.attempts.clear()
        (folder / "revoked").write_text(format_key(bad) + "\n")
        make_krl(folder, bad)
        (folder / "known").write_text(known + (f"@revoked * {format_key(bad)} ö\n" if way == "line" else ""))
        config = {"line": "", "list": "RevokedHostKeys ~/revoked", "krl": "RevokedHostKeys ~/krl"}[way]
        await refused(server, folder, config)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("way", ["line", "list"])
async def test_revoked_certificate_revokes_its_key(server: FakeSshd, folder: Path, way: str, policy: str) -> None:
    authority = asyncssh.generate_private_key("ssh-ed25519")
    certificate = authority.generate_host_certificate(server.host_key, "host", principals=["other"])
    revoked = " ".join(certificate.export_certificate("openssh").decode().split()[:2])
    (folder / "revoked").write_text(revoked + "\n")
    (folder / "known").write_text(server.known_hosts_line + (f"@revoked * {revoked}\n" if way == "line" else ""))
    await refused(server, folder, "RevokedHostKeys ~/revoked" if way == "list" else "", policy)


async def test_revoked_certificate_revokes_other_certificates_of_its_key(folder: Path) -> None:
    authority, key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    shown, revoked = (authority.generate_host_certificate(key, name, principals=[HOST]) for name in "ab")
    async with running_ssh_server(LOGIN, server_host_keys=[(key, shown)]) as server:
        (folder / "known").write_text(f"@cert-authority * {format_key(authority)}\n")
        await open_with(server, folder, "")
        server.attempts.clear()
        (folder / "revoked").write_bytes(revoked.export_certificate("openssh"))
        await refused(server, folder, "RevokedHostKeys ~/revoked")


# KnownHostsCommand


def command(folder: Path, text: str) -> str:
    path = folder / "command"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


async def test_known_hosts_command_supplies_keys_for_the_presented_one(server: FakeSshd, folder: Path) -> None:
    program = command(folder, f'echo "$@" >> {folder}/log; [ "$1" = ORDER ] || echo "$2 $3 $4 ö"')
    await open_with(server, folder, f"KnownHostsCommand {program} %I %H %t %K")
    name, (kind, data) = f"[{HOST}]:{server.port}", key_of(server).split()
    assert (folder / "log").read_text().splitlines() == [f"ORDER {name} NONE NONE", f"HOSTNAME {name} {kind} {data}"]


async def test_known_hosts_command_may_revoke_and_its_failure_refuses(server: FakeSshd, folder: Path) -> None:
    (folder / "known").write_text(server.known_hosts_line)
    revoking = command(folder, f"echo '@revoked * {key_of(server)}'")
    await refused(server, folder, f"KnownHostsCommand {revoking}")
    with pytest.raises(ConnectFailed, match=r"KnownHostsCommand.*failed: no token"):
        await open_with(server, folder, f"KnownHostsCommand {command(folder, 'echo no token >&2; exit 1')}")
    with pytest.raises(ConnectTimeout):
        await open_with(server, folder, f"KnownHostsCommand {command(folder, 'sleep 600')}", connect_timeout_s=1)


@pytest.mark.parametrize("policy", ["strict", "accept_new"])
def test_key_revoked_by_known_hosts_command_is_refused_after_other_keys(folder: Path, policy: HostKeyPolicy) -> None:
    revoked, other = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    (folder / "known").write_text(f"box {format_key(revoked)}\n")
    program = command(
        folder, f'[ "$1" = "{format_key(revoked).split()[1]}" ] && echo "@revoked * {format_key(revoked)}"; exit 0'
    )
    (folder / "config").write_text(f"UserKnownHostsFile {folder}/known\nKnownHostsCommand {program} %K\n")
    options = SshConnectOptions("box", config_path=str(folder / "config"), host_keys=HostKeyOptions(policy))
    check = HostKeyCheck(resolve(options)[-1])
    for key in (revoked, other):
        with pytest.raises(asyncssh.HostKeyNotVerifiable):
            check.present(key.public_data)
        assert check.must_examine()
        check.examine()
    check.present(other.public_data)
    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        check.present(revoked.public_data)
    assert check.failure is not None
    assert "revoked" in str(check.failure)


def test_server_that_presents_ever_new_keys_is_refused(folder: Path) -> None:
    (folder / "config").write_text(f"KnownHostsCommand {command(folder, 'exit 0')} %K\n")
    check = HostKeyCheck(resolve(SshConnectOptions("box", config_path=str(folder / "config")))[-1])
    examined = 0
    while examined < 100:
        with pytest.raises(asyncssh.HostKeyNotVerifiable):
            check.present(asyncssh.generate_private_key("ssh-ed25519").public_data)
        if not check.must_examine():
            break
        check.examine()
        examined += 1
    assert examined < 10
    assert not check.may_request_another()


# Properties

_NAMES = st.text(st.sampled_from("aAb.*?![]:1,"), max_size=8)


@given(st.binary(max_size=80))
def test_any_bytes_of_known_hosts_parse(content: bytes) -> None:
    for line in parse_lines(content, "known"):
        assert line.revokes or line.blob is not None
    find_keys(parse_lines(content, "known"), "host", None)
    try:
        parse_revoked_keys(content)
    except ValueError as error:
        assert "line" in str(error)  # noqa: PT017


@given(_NAMES.filter(lambda names: names.strip() and not names.startswith("#")), st.sampled_from(["a", "ab", "[a.b]:1", "b1"]))
def test_names_match_as_for_ssh_keygen(names: str, name: str) -> None:
    """ssh-keygen -F compares names as ssh(1) does."""
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIiqUdBLEtb4P8VTKYAF3+rqOAWVnfvCwzcVAP7bIy3x"
    memory = os.memfd_create("known_hosts")
    try:
        os.write(memory, f"{names} {key}\n".encode())
        path = f"/proc/{os.getpid()}/fd/{memory}"
        program = require_program("ssh-keygen", "openssh-client")
        found = subprocess.run([program, "-F", name, "-f", path], capture_output=True, check=False).returncode == 0
    finally:
        os.close(memory)
    assert bool(matches(names.encode(), name)) == found
