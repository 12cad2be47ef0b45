"""SSH options, the text form of jump hosts, and the resolution with the OpenSSH configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.channel import Pty
from transports.errors import InvalidOption
from transports.ssh import HostKeyOptions, SshAuth, SshConnectOptions, SshJumpHost, parse_jump_hosts
from transports.ssh.algorithms import host_key_algorithms, transport_algorithms
from transports.ssh.endpoint import resolve

NAMES = st.text(st.characters(categories=["Ll", "Nd"], include_characters=".-_"), min_size=1).filter(
    lambda name: not name.startswith("-") and name != "none"
)
HOSTS = NAMES | st.ip_addresses().map(str)
PORTS = st.none() | st.integers(1, 65535)
USERS = st.none() | NAMES | st.tuples(NAMES, NAMES).map("@".join)


@given(st.lists(st.builds(SshJumpHost, HOSTS, PORTS, USERS), min_size=1, max_size=4))
def test_jump_hosts_written_as_text_parse_to_same_hosts(hops: list[SshJumpHost]) -> None:
    def write(hop: SshJumpHost) -> str:
        user = "" if hop.username is None else f"{hop.username}@"
        host = f"[{hop.host}]" if ":" in hop.host else hop.host
        return user + host + ("" if hop.port is None else f":{hop.port}")

    assert parse_jump_hosts(",".join(map(write, hops))) == tuple(hops)


@given(st.text(max_size=30))
def test_jump_hosts_from_any_text_parse_or_raise_invalid_option(text: str) -> None:
    try:
        hops = parse_jump_hosts(text)
    except InvalidOption:
        return
    assert all(hop.host for hop in hops)


@pytest.mark.parametrize(
    ("text", "hops"),
    [
        ("none", ()),
        ("a , b:22", (SshJumpHost("a"), SshJumpHost("b", 22))),
        ("ssh://u@a:2222/", (SshJumpHost("a", 2222, "u"),)),
        ("me@corp.example@a", (SshJumpHost("a", None, "me@corp.example"),)),
        ("::1", (SshJumpHost("::1"),)),
        ("u@[fe80::1]:22", (SshJumpHost("fe80::1", 22, "u"),)),
    ],
)
def test_jump_hosts_have_syntax_of_ssh(text: str, hops: tuple[SshJumpHost, ...]) -> None:
    assert parse_jump_hosts(text) == hops


@pytest.mark.parametrize("text", ["", "a,,b", "a:port", "a:0", "a:70000", "u@", "[::1", "a b"])
def test_jump_hosts_with_invalid_text_raise_invalid_option(text: str) -> None:
    with pytest.raises(InvalidOption):
        parse_jump_hosts(text)


@pytest.mark.parametrize(
    "fields",
    [
        {"host": ""},
        {"host": "-oProxyCommand=x"},
        {"port": 0},
        {"port": 65536},
        {"connect_timeout_s": 0},
        {"keepalive_s": -1},
        {"pty": Pty(cols=0)},
        {"command": ""},
        {"command": ()},
        {"command": "a\0b"},
        {"command": ("a", "\udcff")},
        {"env": {"A": "\0"}},
        {"env": {"A=B": ""}},
        {"env": {"": "x"}},
        {"pty": Pty(rows=65536)},
        {"use_openssh_config": False, "config_path": "/x"},
        {"use_openssh_config": False, "host_keys": HostKeyOptions("accept_new")},
    ],
)
def test_ssh_invalid_options_raise_invalid_option(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        SshConnectOptions(**{"host": "h", **fields})


def test_ssh_invalid_credentials_raise_invalid_option() -> None:
    with pytest.raises(InvalidOption, match="not both"):
        SshAuth(private_key_pem="x", private_key_path="y")
    with pytest.raises(InvalidOption, match="needs password"):
        SshAuth("password")
    with pytest.raises(InvalidOption, match="SHA256"):
        HostKeyOptions(fingerprint="MD5:aa:bb")


def test_ssh_options_repr_contains_no_secret() -> None:
    options = SshConnectOptions("h", auth=SshAuth("auto", "s3cret-1", "s3cret-2", None, "s3cret-3"), use_openssh_config=False)
    assert "s3cret" not in repr(options)
    assert "s3cret" not in repr(resolve(options))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with an empty .ssh."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def write_config(home: Path, text: str) -> None:
    (home / ".ssh" / "config").write_text(text)


def test_resolve_applies_openssh_configuration(home: Path) -> None:
    write_config(home, "Host sw1\n HostName 192.0.2.7\n Port 2022\n User noc\n IdentityFile ~/keys/noc\n HostKeyAlias rack\n")
    (endpoint,) = resolve(SshConnectOptions("sw1"))
    assert (endpoint.host, endpoint.port, endpoint.username) == ("192.0.2.7", 2022, "noc")
    assert endpoint.settings.identity_files == (str(home / "keys/noc"),)
    assert endpoint.settings.known_hosts_name == "rack"
    assert endpoint.known_hosts[0] == str(home / ".ssh/known_hosts")


def test_resolve_options_override_configuration(home: Path) -> None:
    write_config(home, "Host *\n Port 2022\n User noc\n ProxyJump gate\n")
    (endpoint,) = resolve(SshConnectOptions("sw1", 22, "me", jump=()))
    assert (endpoint.host, endpoint.port, endpoint.username) == ("sw1", 22, "me")


def test_resolve_reads_named_configuration_file(home: Path, tmp_path: Path) -> None:
    write_config(home, "Host *\n Port 1\n")
    other = tmp_path / "other"
    other.write_text("Host *\n Port 2\n")
    assert resolve(SshConnectOptions("sw1", config_path=str(other)))[0].port == 2


def test_resolve_without_configuration_uses_no_file_in_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(home, "Host *\n Port 2022\n ProxyJump gate\n")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    (endpoint,) = resolve(SshConnectOptions("sw1", username="me", use_openssh_config=False))
    assert endpoint.port == 22
    assert endpoint.known_hosts == endpoint.settings.identity_files == ()
    assert endpoint.settings.agent_path == "/run/agent"


@pytest.mark.parametrize("text", ["Port none", "Host sw1\n ProxyJump a,,b", 'User "'])
def test_resolve_invalid_configuration_raises_invalid_option(home: Path, text: str) -> None:
    write_config(home, text + "\n")
    with pytest.raises(InvalidOption):
        resolve(SshConnectOptions("sw1"))


def test_resolve_missing_named_configuration_raises_invalid_option() -> None:
    with pytest.raises(InvalidOption, match="/nowhere/config"):
        resolve(SshConnectOptions("sw1", config_path="/nowhere/config"))


def test_resolve_known_hosts_none_keeps_strict_policy(home: Path) -> None:
    write_config(home, "Host *\n UserKnownHostsFile none\n GlobalKnownHostsFile none\n")
    (endpoint,) = resolve(SshConnectOptions("sw1"))
    assert endpoint.known_hosts == ()
    assert endpoint.host_keys.policy == "strict"


def test_resolve_records_new_keys_in_user_file_only(home: Path) -> None:
    (endpoint,) = resolve(SshConnectOptions("sw1"))
    assert endpoint.record_to == str(home / ".ssh/known_hosts")
    assert endpoint.known_hosts[-1].startswith("/etc/ssh/")
    write_config(home, "Host *\n UserKnownHostsFile none\n")
    (endpoint,) = resolve(SshConnectOptions("sw1"))
    assert endpoint.record_to is None


def test_resolve_agent_follows_identity_agent_setting(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    assert resolve(SshConnectOptions("sw1"))[0].settings.agent_path == "/run/agent"
    write_config(home, "IdentityAgent none\n")
    assert resolve(SshConnectOptions("sw1"))[0].settings.agent_path is None
    write_config(home, "IdentityAgent ~/agent\n")
    assert resolve(SshConnectOptions("sw1"))[0].settings.agent_path == str(home / "agent")


def hosts(options: SshConnectOptions) -> list[str]:
    return [f"{endpoint.username}@{endpoint.host}:{endpoint.port}" for endpoint in resolve(options)]


def test_resolve_applies_configuration_to_each_jump_host(home: Path) -> None:
    write_config(
        home,
        "Host sw1\n ProxyJump outer,inner\n User admin\n"
        "Host outer\n HostName out.example\n User o\n Port 2001\n"
        "Host inner\n HostName in.example\n User i\n",
    )
    assert hosts(SshConnectOptions("sw1")) == ["o@out.example:2001", "i@in.example:22", "admin@sw1:22"]
    assert hosts(SshConnectOptions("sw1", jump=parse_jump_hosts("x@inner:9"))) == ["x@in.example:9", "admin@sw1:22"]


def test_resolve_adds_jump_hosts_of_first_jump_host(home: Path) -> None:
    write_config(home, "User u\nHost sw1\n ProxyJump b\nHost b\n ProxyJump a\n")
    assert hosts(SshConnectOptions("sw1")) == ["u@a:22", "u@b:22", "u@sw1:22"]
    assert hosts(SshConnectOptions("x", jump=parse_jump_hosts("b"))) == ["u@a:22", "u@b:22", "u@x:22"]


def test_resolve_jump_host_for_all_hosts_skips_itself(home: Path) -> None:
    write_config(home, "Host *\n User u\n ProxyJump gate\n")
    assert hosts(SshConnectOptions("sw1")) == ["u@gate:22", "u@sw1:22"]
    assert hosts(SshConnectOptions("gate")) == ["u@gate:22"]


@pytest.mark.parametrize("jump", ["gate", "GATE"])
def test_resolve_jump_host_with_address_of_target_is_kept(home: Path, jump: str) -> None:
    """Behind the jump host, or its ProxyCommand, the address may be another machine."""
    address = "  HostName 127.0.0.1\n"
    write_config(home, f"Host box\n  ProxyJump {jump}\n{address}Host gate GATE\n{address}  ProxyCommand relay\n")
    route = resolve(SshConnectOptions("box"))
    assert [(hop.is_jump_host, hop.proxy_command) for hop in route] == [(True, "relay"), (False, None)]


def test_resolve_circular_jump_hosts_terminates(home: Path) -> None:
    write_config(home, "User u\nHost a\n ProxyJump b\nHost b\n ProxyJump a\n")
    assert hosts(SshConnectOptions("a")) == ["u@b:22", "u@a:22"]


def test_resolve_password_and_pinned_key_apply_to_target_only() -> None:
    options = SshConnectOptions(
        "sw1",
        auth=SshAuth("password", "secret"),
        host_keys=HostKeyOptions(fingerprint="SHA256:" + "A" * 43),
        jump=(SshJumpHost("a"), SshJumpHost("b", auth=SshAuth("password", "other"))),
        legacy_algorithms=True,
        use_openssh_config=False,
    )
    a, b, target = resolve(options)
    assert (a.auth.password, b.auth.password, target.auth.password) == (None, "other", "secret")
    assert (a.host_keys.fingerprint, target.host_keys.fingerprint) == (None, "SHA256:" + "A" * 43)
    assert (a.legacy_algorithms, target.legacy_algorithms) == (False, True)


def test_resolve_jump_host_uses_target_keys() -> None:
    options = SshConnectOptions(
        "t", auth=SshAuth("private_key", private_key_path="k"), jump=(SshJumpHost("a"),), use_openssh_config=False
    )
    assert resolve(options)[0].auth == options.auth


def test_host_key_algorithms_prefer_known_types() -> None:
    asked = host_key_algorithms(False, ["ssh-rsa"], certificates=False)
    assert asked[:2] == ["rsa-sha2-512", "rsa-sha2-256"]
    assert "ssh-ed25519" in asked
    assert "ssh-rsa" not in asked


def test_host_key_algorithms_prefer_certificates_of_known_authority() -> None:
    asked = host_key_algorithms(False, [], certificates=True)
    assert asked[0] == "ssh-ed25519-cert-v01@openssh.com"
    assert asked[-1] == "rsa-sha2-256"


def test_legacy_algorithms_are_offered_on_request_only() -> None:
    assert {"ssh-rsa", "ssh-dss"} <= set(host_key_algorithms(True, [], certificates=False))
    modern = transport_algorithms(False, {})
    assert modern["kex_algs"] == "-diffie-hellman-group14-sha1"
    assert str(modern["encryption_algs"]).startswith("^aes128-gcm@openssh.com")  # ^ prepends to the defaults
    own = transport_algorithms(False, {"KexAlgorithms": ("curve25519-sha256",), "Ciphers": ("aes128-ctr",)})
    assert own == {"kex_algs": ["curve25519-sha256"], "encryption_algs": ["aes128-ctr"]}
    legacy = transport_algorithms(True, {"KexAlgorithms": ("curve25519-sha256",)})
    assert "diffie-hellman-group1-sha1" in legacy["kex_algs"]


def test_home_of_the_test_run_has_no_ssh_directory() -> None:
    assert not Path(os.environ["HOME"], ".ssh").exists()
