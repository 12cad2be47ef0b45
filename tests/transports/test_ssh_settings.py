"""The settings of the OpenSSH configuration: those of ssh(1), those of our own reader, and that the two agree."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.servers.programs import require_program
from transports.caller import Caller, on_behalf_of
from transports.errors import ConnectTimeout, InvalidOption
from transports.ssh import SshConnectOptions, SshJumpHost, host_settings, openssh_config
from transports.ssh.endpoint import resolve
from transports.ssh.host_keys import HostKeyCheck
from transports.ssh.host_settings import HostSettings, read_without_ssh, settings_for
from transports.ssh.known_hosts import matches
from transports.ssh.login_keys import login_keys
from transports.ssh.openssh_config import matches_pattern, split_words
from transports.ssh.programs import ProgramContext, run_program


class Machine:
    """A home directory with a configuration, and two ways to read it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / ".ssh"
        self.folder.mkdir(exist_ok=True)

    def write(self, text: str | bytes, name: str = "config") -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(0o600)
        return path

    def both(self, host: str = "box", **fields: Any) -> tuple[HostSettings, HostSettings]:
        """Return the settings that ssh(1) finds, and those that our own reader finds."""
        require_program("ssh", "openssh-client")
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.home), **fields.pop("env", {})}
        context = ProgramContext(tuple(variables.items()), str(self.home))
        hop, options = SshJumpHost(host, fields.get("port"), fields.get("username")), SshConnectOptions(host)
        deadline = time.monotonic() + 60
        return settings_for(hop, options, context, deadline), read_without_ssh(hop, options, context, deadline)

    def is_accepted_by_ssh(self, env: dict[str, str]) -> bool:
        """Return whether ssh(1) reads the configuration. If it does not, our own reader replaces it."""
        command = [require_program("ssh", "openssh-client"), "-G", "-F", str(self.folder / "config"), "box"]
        return subprocess.run(command, capture_output=True, env={"HOME": str(self.home), **env}, check=False).returncode == 0

    def same(self, host: str = "box", **fields: Any) -> HostSettings:
        by_ssh, by_reader = self.both(host, **fields)
        assert by_ssh == by_reader
        return by_ssh


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("HostName 192.0.2.7 # the lab box", "host", "192.0.2.7"),
        ("HostName 192.0.2.7\t# x", "host", "192.0.2.7"),
        ("HostName = 192.0.2.7", "host", "192.0.2.7"),
        ("hostname=192.0.2.7", "host", "192.0.2.7"),
        ('HostName "192.0.2.7"', "host", "192.0.2.7"),
        ("HostName %h.example", "host", "box.example"),
        ("Host far\n HostName 10.0.0.1 # Ann's box\nHost box\n HostName 192.0.2.7", "host", "192.0.2.7"),
        ("Match all # set by the VPN client\n Port 77", "port", 77),
        ("Match host box,gate\n Port 77", "port", 77),
        ("Match !host other originalhost b*\n Port 77", "port", 77),
        ("HostName box.example\nMatch host *.example\n Port 77", "port", 77),
        ('Match exec "test %h = box"\n Port 77', "port", 77),
        ('Match exec "false"\n Port 77', "port", 22),
        ('Match user noc exec "exit 1"\n Port 1\nHost b?x !bax\n Port 77', "port", 77),
        ("Match final host box.example\n Port 77\nHost box\n HostName box.example", "port", 77),
        ("Port 77\nPort 78", "port", 77),
        ("Host *.x !box\n Port 1\nHost !box *\n Port 2", "port", 22),
        ("User noc\nIdentityFile ~/%r@%h_%p_%n_%k_%u", "identity_files", None),
        ("IdentityFile ~/a\nIdentityFile ~/b\nIdentityFile ~/a", "identity_files", None),
        ("IdentityFile ${KEYS}/a\nIdentityFile ${NOT_SET}/b", "identity_files", ("/keys/a",)),
        ("IdentityFile none", "identity_files", ()),
        ('IdentityFile "~/my key"', "identity_files", None),
        ("CertificateFile ~/c-%h", "certificate_files", None),
        ("IdentityAgent $AGENT", "agent_path", "/run/agent2"),
        ("IdentityAgent /x${AGENT}", "agent_path", "/x/run/agent2"),
        ("IdentityAgent $NOT_SET", "agent_path", None),
        ("IdentityAgent ~/agent-%h", "agent_path", None),
        ("IdentityAgent none", "agent_path", None),
        ("IdentityAgent SSH_AUTH_SOCK", "agent_path", "/run/agent"),
        ("UserKnownHostsFile ~/a ~/b_%h", "known_hosts", None),
        ('UserKnownHostsFile "~/my hosts" ~/b', "known_hosts", None),
        ("UserKnownHostsFile none", "known_hosts", ()),
        ("GlobalKnownHostsFile ~/a /g", "global_known_hosts", None),
        ("GlobalKnownHostsFile /g%%h", "global_known_hosts", ("/g%%h",)),
        ("UserKnownHostsFile /u%%h_%h /x%%", "known_hosts", ("/u%h_box", "/x%")),
        ("IdentityAgent /a%%h_%h", "agent_path", "/a%h_box"),
        ("KnownHostsCommand /bin/echo %H %h %% %t", "known_hosts_command", ("/bin/echo", "%H", "box", "%%", "%t")),
        ("RevokedHostKeys ~/revoked", "revoked_host_keys", None),
        ("ProxyCommand relay %h %p %r %% 2>/dev/null # not a comment", "proxy_command", None),
        ("ProxyCommand = relay '%n'", "proxy_command", "relay 'box'"),
        ("ProxyCommand none\nProxyJump gate", "proxy_command", None),
        ("ProxyJump u@gate-%h:22\nProxyCommand relay", "proxy_jump", "u@gate-box:22"),
        ("ProxyCommand relay\nProxyJump gate", "proxy_jump", None),
        ("RemoteCommand date +%%Y %h", "remote_command", "date +%Y box"),
        ("SetEnv A=1 B=2\nSendEnv KE*", "environment", (("A", "1"), ("B", "2"), ("KEYS", "/keys"))),
        ("SendEnv KEYS AGENT\nSendEnv -KE*", "environment", (("AGENT", "/run/agent2"),)),
        ("ServerAliveInterval 1m\nConnectTimeout 1m", "port", 22),
        ("PubkeyAuthentication host-bound", "login", ()),
        ("PubkeyAuthentication no\nPasswordAuthentication no", "login", None),
        ("PreferredAuthentications publickey,password", "login", (("preferred_auth", ("publickey", "password")),)),
        ("PKCS11Provider /usr/lib/opensc-pkcs11.so\nSecurityKeyProvider /usr/lib/sk.so", "port", 22),
        ("Ciphers aes256-ctr,aes128-ctr", "algorithms", (("Ciphers", ("aes256-ctr", "aes128-ctr")),)),
        (
            "PubkeyAcceptedAlgorithms rsa-sha2-512,ssh-ed25519-cert-v01@openssh.com,ssh-ed25519,ecdsa-sha2-nistp256",
            "login_algorithms",
            ("rsa-sha2-512", "ssh-ed25519-cert-v01@openssh.com", "ssh-ed25519", "ecdsa-sha2-nistp256"),
        ),
        ("PubkeyAcceptedKeyTypes ssh-ed25519", "login_algorithms", ("ssh-ed25519",)),
        ("Port 77", "login_algorithms", None),
        ("ProxyCommand none\nProxyUseFdpass yes", "proxy_command", None),
        ("HostKeyAlias Rack", "known_hosts_name", None),
        ("RekeyLimit 500M 1h30m", "network", (("rekey_bytes", 500 << 20), ("rekey_seconds", 5400))),
        ("User none", "username", "none"),
        ("HostName none", "host", "none"),
        ("Port ssh", "port", 22),
        ("RemoteCommand echo a\u2028user root\x0cport 1\nUser joe", "username", "joe"),
        ("RekeyLimit 4k", "network", (("rekey_bytes", 4096),)),
        ("RekeyLimit default 90", "network", (("rekey_seconds", 90),)),
        ("RekeyLimit default none", "network", ()),
        ("AddressFamily inet6\nTCPKeepAlive no", "network", (("family", "inet6"), ("tcp_keepalive", False))),
    ],
)
def test_settings_of_configuration_are_those_of_ssh(machine: Machine, text: str, field: str, value: Any) -> None:
    machine.write(text + "\n")
    env = {"KEYS": "/keys", "AGENT": "/run/agent2", "SSH_AUTH_SOCK": "/run/agent"}
    assert machine.is_accepted_by_ssh(env)
    found = machine.same(env=env)
    if value is not None:
        assert getattr(found, field) == value


def test_proxy_command_that_hands_over_a_socket_is_refused_with_the_reason(machine: Machine) -> None:
    machine.write("Host box\n ProxyCommand nc -F %h %p\n ProxyUseFdpass yes\nHost other\n ProxyCommand nc %h %p\n")
    machine.same("other")
    with pytest.raises(InvalidOption, match="ProxyUseFdpass is not supported") as refused:
        machine.both()
    assert "ProxyUseFdpass no" in (refused.value.hint or "")


def test_settings_of_text_outside_utf8_are_those_of_ssh(machine: Machine) -> None:
    machine.write("# salle du 2e étage\nHost box\n User noc # Zürich\n".encode("latin-1"))
    assert machine.same().username == "noc"


def test_settings_of_included_files_follow_their_sorted_names(machine: Machine) -> None:
    for name in ("20", "03", "1a", "00", "11"):
        machine.write(f"Host box\n HostName 192.0.2.{int(name, 16)}\nHost *\n User u{name}\n", f"parts/{name}.conf")
    machine.write("Host other\n Include ~/.ssh/parts/00.conf\nHost *\nInclude parts/*.conf missing.conf\nPort 77\n")
    assert machine.same().host == "192.0.2.0"
    assert machine.same().port == 77


def test_settings_given_by_caller_are_used_in_tokens(machine: Machine) -> None:
    machine.write("User noc\nPort 1\nIdentityFile /k/%r/%p\nMatch user me\n ProxyJump gate\n")
    found = machine.same(username="me", port=2022)
    assert (found.identity_files, found.proxy_jump, found.username, found.port) == (("/k/me/2022",), "gate", "me", 2022)


# Generated configurations

_NAMES = st.sampled_from(["box", "b*", "?ox", "other", "*", "!box", "!other", "BOX"])
_LINES = st.sampled_from(
    [
        *("HostName 192.0.2.1", "HostName %h.example # c", 'HostName "b.example"', "User noc", "User=me # it's", "Port 77"),
        *("IdentityFile ~/a_%h", "IdentityFile /b", "IdentitiesOnly yes", "CertificateFile ~/c", "HostKeyAlias rack"),
        *("UserKnownHostsFile ~/k1 ~/k2", "GlobalKnownHostsFile /g", "RevokedHostKeys ~/r", "ProxyJump gate", "ProxyJump none"),
        *("ProxyCommand nc %h %p", "ProxyCommand none", "IdentityAgent none", "IdentityAgent $A", "SendEnv X*", "SetEnv Q=1"),
        *(
            "# Ann's comment",
            "",
            "ForwardAgent yes",
            "ServerAliveInterval 1m",
            "RekeyLimit 1G 1h",
            "RekeyLimit default 1m30s",
            "RemoteCommand ls %h",
            "Include one",
            "Include */x",
        ),
    ]
)
_CRITERIA = st.sampled_from(
    [
        "all",
        "host box",
        "host *.example",
        "!host other",
        "originalhost b*",
        "user noc",
        "!user noc",
        'exec "true"',
        "exec false",
    ]
)
_BLOCKS = st.one_of(
    st.lists(_NAMES, min_size=1, max_size=3).map(lambda names: "Host " + " ".join(names)),
    _CRITERIA.map(lambda criterion: f"Match {criterion}"),
    st.tuples(_CRITERIA, _CRITERIA).filter(lambda two: "all" not in two).map(lambda two: f"Match {two[0]} {two[1]} # and"),
)
_TEXTS = st.lists(st.one_of(_LINES, _LINES, _BLOCKS, _LINES.map("  {}\t".format)), max_size=14).map("\n".join)

_INCLUDED = st.lists(_LINES.filter(lambda line: "Include" not in line), max_size=4).map("\n".join)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(_TEXTS, _INCLUDED, st.sampled_from(["box", "x"]))
def test_settings_of_any_configuration_are_those_of_ssh(text: str, included: str, host: str) -> None:
    with TemporaryDirectory() as name:
        machine = Machine(Path(name))
        machine.write(included, "one")
        machine.write(included, "d/x")
        machine.write(text)
        machine.same(host, env={"A": "/agent", "XY": "1"})


_WORDS = st.text(st.sampled_from("ab \t'\"\\#=%"), max_size=12)


@given(_WORDS)
def test_words_of_any_line_are_split_or_refused(text: str) -> None:
    try:
        words = split_words(text)
    except ValueError:
        return
    assert all(len(word) <= len(text) for word in words)


# Lines that are not needed


@pytest.mark.parametrize(
    "line",
    [
        "Match nothing x",
        "Match version 9.*\n Port 1",
        "FutureOption yes",
        'LocalCommand "open quote',
        'Host other\n User "\nHost *',
        "Host other\n Port none\nHost *",
        "Compression perhaps",
        "Include a\0b",
        "Match",
    ],
)
def test_line_that_is_not_needed_refuses_no_host(machine: Machine, line: str) -> None:
    machine.write(f"{line}\nHost box\n HostName 192.0.2.7\n")
    assert {found.host for found in machine.both()} == {"192.0.2.7"}


def test_revocation_in_block_with_unknown_criterion_has_effect(machine: Machine) -> None:
    machine.write("Match moon full\n User x\n RevokedHostKeys /r\nHost box\n User noc\n")
    for found in machine.both():
        assert (found.username, found.revoked_host_keys) == ("noc", ("/r",))


@pytest.mark.parametrize(
    ("text", "revoked"),
    [
        ("Match moon full\n RevokedHostKeys none\nHost *\n RevokedHostKeys /r\n", ("/r",)),
        ("Match moon full\n RevokedHostKeys /other\nHost *\n RevokedHostKeys /r\n", ("/r", "/other")),
        ("Match moon full\n Include part\nHost *\n RevokedHostKeys /r\n", ("/r", "/inner")),
        ("Host box\n Match moon full\n Include part\n", ("/inner",)),
        ("Match moon full\n Include part\nMatch all\n RevokedHostKeys none\n", ("/inner",)),
        ("Match host other moon full\n RevokedHostKeys /x\nHost *\n RevokedHostKeys /r\n", ("/r",)),
    ],
)
def test_revocations_of_doubtful_blocks_are_added_to_the_others(machine: Machine, text: str, revoked: tuple[str, ...]) -> None:
    machine.write("Host *\n RevokedHostKeys /inner\nHost other\n RevokedHostKeys /no\nMatch all\n User part\n", "part")
    machine.write(text)
    for found in machine.both():
        assert (found.username != "part", found.revoked_host_keys) == (True, revoked)


def test_program_of_doubtful_block_does_not_run(machine: Machine) -> None:
    marker = machine.home / "marker"
    machine.write(f'Match exec "touch {marker}"\n User x\n', "part")
    machine.write("Match moon full\n Include part\n")
    context = ProgramContext((("HOME", str(machine.home)),), "/")
    read_without_ssh(SshJumpHost("box"), SshConnectOptions("box"), context, time.monotonic() + 60)
    assert not marker.exists()


@pytest.mark.parametrize("line", ["RevokedHostKeys ~/${NOT_SET}", 'RevokedHostKeys "x', "UserKnownHostsFile ${NOT_SET}/k"])
def test_setting_of_revocations_that_cannot_be_read_refuses(machine: Machine, line: str) -> None:
    machine.write(line + "\n")
    with pytest.raises(InvalidOption):
        machine.both()


@pytest.mark.parametrize("name", ["config", "part"])
def test_configuration_that_others_can_write_refuses(machine: Machine, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write("Include part\n")
    machine.write("User noc\n", name).chmod(0o666)
    machine.write("Include part\n") if name == "part" else None
    monkeypatch.setenv("HOME", str(machine.home))
    with pytest.raises(InvalidOption, match=rf"permissions.*{name}|{name}.*permissions"):
        resolve(SshConnectOptions("box"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InvalidOption, match=name):
        resolve(SshConnectOptions("box"))


# Callers


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ("{home}/a {home}/b", ("{home}/a", "{home}/b")),
        ('"{home}/a {home}/b"', ("{home}/a {home}/b",)),
        ('"{home}/a /b"', ("{home}/a /b",)),
        ('"{home}/a b" {home}/c', ("{home}/a b", "{home}/c")),
        (".kh .kh2", ("{cwd}/.kh", "{cwd}/.kh2")),
        ('".kh .kh2" %h', ("{cwd}/.kh .kh2", "{cwd}/box")),
        ("~/a ~root/b %d/c", ("{home}/a", "{root}/b", "{home}/c")),
        ("~root/a", ("{root}/a",)),
    ],
)
@pytest.mark.parametrize("home", ["own", "other"])
def test_paths_are_those_of_the_configuration(
    machine: Machine, tmp_path: Path, home: str, value: str, paths: tuple[str, ...]
) -> None:
    """ssh(1) prints paths without quotes, and expanded in the home of the password database."""
    own, folder = pwd.getpwuid(os.getuid()).pw_dir, tmp_path / "cwd"
    folder.mkdir()
    words = {"home": own if home == "own" else str(tmp_path), "cwd": str(folder), "root": pwd.getpwnam("root").pw_dir}
    config = machine.write(f"UserKnownHostsFile {value.format(**words)}\nGlobalKnownHostsFile {own}/g\nIdentityAgent {own}/a\n")
    with on_behalf_of(Caller(str(folder), {"PATH": os.environ["PATH"], "HOME": words["home"]})):
        require_program("ssh", "openssh-client")
        (endpoint,) = resolve(SshConnectOptions("box", config_path=str(config)))
    assert endpoint.settings.known_hosts == tuple(path.format(**words) for path in paths)
    assert (endpoint.settings.global_known_hosts, endpoint.settings.agent_path) == ((f"{own}/g",), f"{own}/a")


def test_default_paths_of_the_own_home_that_are_written_out_stay_there(machine: Machine) -> None:
    own = pwd.getpwuid(os.getuid()).pw_dir
    paths = (f"{own}/.ssh/known_hosts", f"{own}/.ssh/known_hosts2")
    machine.write(f"UserKnownHostsFile {' '.join(paths)}\n")
    assert machine.same().known_hosts == paths


@pytest.mark.parametrize("name", ["a b", 'a"b', "a'b", "a\\b", "a[b"])
def test_default_paths_are_in_the_home_of_the_caller_with_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert Machine(tmp_path / name).same().known_hosts[0] == f"{tmp_path}/{name}/.ssh/known_hosts"


def test_paths_that_are_not_certain_refuse(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "ssh"  # an ssh with a criterion that our own reader does not know
    program.write_text("#!/bin/sh\necho hostname box\necho port 22\necho userknownhostsfile /a /b\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    config = machine.write("Match moon full\n UserKnownHostsFile /a /b\n")
    with pytest.raises(InvalidOption, match=r"not certain.*/a /b"):
        resolve(SshConnectOptions("box", config_path=str(config)))


def test_relative_include_of_the_machine_is_read_from_its_folder(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    system = machine.home / "etc"
    (system / "sub").mkdir(parents=True)
    (system / "ssh_config").write_text("Include sub/*\n")
    (system / "sub" / "a").write_text("RevokedHostKeys /r\n")
    for module in (host_settings, openssh_config):
        monkeypatch.setattr(module, "SYSTEM_CONFIG", str(system / "ssh_config"))
    assert machine.same().revoked_host_keys == ("/r",)


def test_configuration_is_that_of_the_caller(machine: Machine, tmp_path: Path) -> None:
    machine.write('IdentityFile ${KEYS}/key\nIdentityAgent $AGENT\nMatch exec "test -e marker"\n Port 77\n')
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "marker").touch()
    env = {"HOME": str(machine.home), "PATH": os.environ["PATH"], "KEYS": "/keys", "AGENT": "/run/a"}
    for path in (os.environ["PATH"], "/nowhere"):  # with ssh(1) and without
        with on_behalf_of(Caller(str(tmp_path / "folder"), {**env, "PATH": path, "SHELL": "/bin/sh"})):
            machine.write('IdentityFile ${KEYS}/key\nIdentityAgent $AGENT\nMatch exec "[ -e marker ]"\n Port 77\n')
            (endpoint,) = resolve(SshConnectOptions("box"))
        assert (endpoint.port, endpoint.settings.agent_path) == (77, "/run/a")
        assert endpoint.settings.identity_files == ("/keys/key",)
        assert endpoint.known_hosts[0] == str(machine.home / ".ssh/known_hosts")


def test_jump_hosts_through_programs_of_different_environments_are_different(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.write("ProxyCommand relay %h\n")
    routes = []
    for value in ("blue", "red"):
        with on_behalf_of(Caller("/", {**os.environ, "HOME": str(machine.home), "PROFILE": value})):
            routes.append(resolve(SshConnectOptions("box")))
    assert routes[0] != routes[1]
    assert "blue" not in repr(routes)


# Hostile input, and programs that do not end


@pytest.mark.parametrize(
    "host", ["-oProxyCommand=x", "a;touch x", "$(x)", "a`x`", "a\nb", "a\x1bb", "u@h", "ssh://h", 'a"b', "a b"]
)
def test_host_name_that_a_shell_would_interpret_is_refused(host: str) -> None:
    with pytest.raises(InvalidOption):
        SshConnectOptions(host)
    with pytest.raises(InvalidOption):
        SshJumpHost(host)


@pytest.mark.parametrize("user", ["$(touch x)", "$HOME", "a;touch x", "-x", "a`x`", "a b", "*", "a\\"])
def test_user_name_that_a_shell_would_interpret_reaches_no_command(machine: Machine, user: str) -> None:
    marker = machine.home / "marker"
    for line in (f'Match exec "touch {marker}; echo %r"', "ProxyCommand relay %r"):
        machine.write(f"{line}\n")
        with pytest.raises(InvalidOption, match="user name"):
            machine.both(username=user)
    assert not marker.exists()
    machine.write("Match user x*\n Port 1\nHost box\n Port 77\n")
    assert machine.same(username=user).port == 77


def test_program_that_match_exec_leaves_in_the_background_is_not_waited_for(machine: Machine) -> None:
    pids = machine.home / "pids"
    machine.write(f'Match exec "sleep 600 & echo $! >> {pids}"\n Port 77\n')
    try:
        assert machine.same().port == 77
    finally:
        for pid in pids.read_text().split() if pids.exists() else ():
            os.kill(int(pid), signal.SIGKILL)


def test_all_that_an_ended_program_printed_is_read(tmp_path: Path) -> None:
    context, size = ProgramContext(tuple(os.environ.items()), "/"), 3_000_000
    command = ["sh", "-c", f"head -c {size} /dev/zero; head -c {size} /dev/zero >&2; exit 3"]
    status, *printed = run_program(command, context, time.monotonic() + 60)
    assert (status, [len(text) for text in printed]) == (3, [size, size])


def fake_ssh(machine: Machine, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    program = machine.home / "ssh"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{machine.home}:{os.environ['PATH']}")


@pytest.mark.parametrize("text", ["exit 0", "echo hostname; exit 0", "echo usage: ssh host", "kill -SEGV $$", "exit 255"])
def test_program_that_is_no_ssh_leaves_the_configuration_to_our_reader(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    fake_ssh(machine, monkeypatch, text)
    machine.write("Host box\n HostName 192.0.2.7\n")
    assert machine.same().host == "192.0.2.7"


def test_defaults_that_ssh_failed_to_print_are_asked_for_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    failed, ssh = machine.home / "failed", require_program("ssh", "openssh-client")
    once = f'case "$*" in *localhost) [ -e {failed} ] || {{ touch {failed}; exit 1; }};; esac'
    fake_ssh(machine, monkeypatch, f'{once}\nexec {ssh} "$@"')
    for _ in range(2):
        assert machine.same().algorithms == ()
    assert failed.exists()


@pytest.mark.parametrize("setting", ["UserKnownHostsFile", "GlobalKnownHostsFile", "RevokedHostKeys", "config"])
def test_fifo_in_place_of_a_file_refuses_at_once(tmp_path: Path, setting: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "config").write_text(f"{setting} {tmp_path}/fifo\n")
    config = tmp_path / ("fifo" if setting == "config" else "config")
    with pytest.raises(InvalidOption, match="not a regular file"):
        HostKeyCheck(resolve(SshConnectOptions("box", config_path=str(config)))[-1])


async def test_fifo_in_place_of_a_key_is_skipped(tmp_path: Path) -> None:
    for name in ("key", "key-cert.pub", "other.pub"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "config").write_text(f"IdentityFile {tmp_path}/key\nIdentityFile {tmp_path}/other\nIdentityAgent none\n")
    async with login_keys(resolve(SshConnectOptions("box", config_path=str(tmp_path / "config")))[-1]) as keys:
        assert not keys


@given(st.text("ab*?.[", max_size=8), st.text("ab.[\n", max_size=8))
def test_pattern_matches_as_the_regular_expression_of_it(pattern: str, text: str) -> None:
    expression = "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern)
    assert matches_pattern(pattern, text) is (re.fullmatch(expression, text, re.DOTALL) is not None)


def test_pattern_with_many_stars_is_matched_in_a_short_time() -> None:
    assert not matches_pattern("*-" * 200 + "x", "-" * 2000 + "y")
    assert not matches("*".join(["", *"-" * 200, "x"]).encode(), "-" * 2000)


@pytest.mark.parametrize("path", [os.environ["PATH"], "/nowhere"])
def test_match_exec_that_does_not_end_is_ended_with_the_connect_timeout(machine: Machine, path: str) -> None:
    sleep = shutil.which("sleep")
    machine.write(f'Match exec "{sleep} 600 & exec {sleep} 600"\n Port 1\n')
    env = {"HOME": str(machine.home), "PATH": path, "SHELL": "/bin/sh"}
    with on_behalf_of(Caller("/", env)), pytest.raises(ConnectTimeout, match="did not end in time"):
        resolve(SshConnectOptions("box", connect_timeout_s=0.5))
