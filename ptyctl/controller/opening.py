"""From an open request to a spec and a channel: the one place that knows which fields belong to which transport."""

from __future__ import annotations

import shutil
from typing import Protocol

from ptyctl.api.errors import unsupported
from ptyctl.api.session import Auth, Expect, PtyOptions, SessionRequest, SshOptions, TelnetOptions, Timeouts
from ptyctl.core.prompt import Expectations
from ptyctl.core.shells import answering_program
from ptyctl.session.calls.arriving import expect_of
from ptyctl.session.runs.shells import with_marks
from ptyctl.session.spec import Spec
from transports import ssh, telnet
from transports.channel import Channel, Pty
from transports.local import LocalChannel, LocalOptions, user_shell

from .destinations import Destination
from .ssh_auth import auth_of

#: What a platform's end of line is for Telnet, where it is not CR: that is RFC 854's to send.
_LINE_ENDINGS: dict[str, telnet.LineEnding] = {"\n": "lf", "\r\n": "crlf"}
_DEFAULT_PORTS = {"ssh": 22, "telnet": 23, "local": None}


class OpensChannels(Protocol):
    """Makes the channel to a destination; tests put a scripted one in its place."""

    def __call__(self, destination: Destination, /) -> Channel: ...


def spec_of(destination: Destination) -> Spec:
    """What the session will be.

    Raises:
        PtyctlError: UNSUPPORTED or INVALID_ARGUMENT for what cannot be opened, before anything is tried.
    """
    request, platform = destination.request, destination.platform
    assert request.protocol is not None
    expect = request.expect or Expect()
    expect = expect if platform is None else expect_of(expect, platform)
    Expectations.of(expect.prompt_regex, expect.pager_regexes, expect.error_regexes)
    pty = request.pty or PtyOptions()
    if request.protocol == "local" and not pty.enabled:
        raise unsupported("a local session always has a terminal; leave pty.enabled out", field="pty.enabled")
    console = request.session_type == "console"
    posix = platform is None or platform.posix_shell
    return Spec(
        protocol=request.protocol,
        host=request.host,
        port=request.port or (_DEFAULT_PORTS[request.protocol] if request.protocol != "ssh" else None),
        username=request.username,
        session_type=request.session_type or "normal",
        device_id=request.device_id,
        device=destination.device,
        platform=request.platform,
        program=_program(request, pty),
        probe_shell=request.protocol != "local" and posix and (not console or platform is not None),
        integrated=_is_hooked(request),
        install_integration=request.protocol != "local" and request.shell_integration == "auto",
        idle_timeout_s=(request.timeouts or Timeouts()).idle_timeout_ms / 1000,
        pty=pty,
        expect=expect,
    )


def channel_opener() -> OpensChannels:
    """A function that makes channels; SSH sessions made by one share their connections to jump hosts."""
    connections = ssh.SshConnectionPool()

    def open_channel(destination: Destination, /) -> Channel:
        request = destination.request
        timeouts = request.timeouts or Timeouts()
        wanted = request.pty or PtyOptions()
        pty = Pty(wanted.cols, wanted.rows, wanted.term)
        if request.protocol == "ssh":
            return ssh.SshChannel(ssh_options(destination, pty if wanted.enabled else None), connections)
        if request.protocol == "telnet":
            return telnet.TelnetChannel(_telnet(destination, timeouts), pty if wanted.enabled else None)
        return LocalChannel(LocalOptions(_argv(request.command), request.cwd, request.env), pty)

    return open_channel


def _program(request: SessionRequest, pty: PtyOptions) -> str | None:
    """The program that answers, where that is known: a local one, or a shell without a terminal, which shows no prompt."""
    if request.protocol == "local":
        argv = _argv(request.command)
        name = answering_program(argv) if argv else user_shell()
        return shutil.which(name) or name
    return "sh" if request.protocol == "ssh" and not pty.enabled and request.command is None else None


def marked_start(request: SessionRequest, nonce: str) -> SessionRequest:
    """The same request, for a local shell that is to send marks."""
    start = with_marks(_argv(request.command) or (user_shell(),), nonce, request.env or {})
    assert start is not None
    return request.model_copy(update={"command": start.argv, "env": {**(request.env or {}), **start.env}})


def _is_hooked(request: SessionRequest) -> bool:
    if request.protocol != "local" or request.shell_integration == "off":
        return False
    return with_marks(_argv(request.command) or (user_shell(),), "", {}) is not None


def _argv(command: str | tuple[str, ...] | None) -> tuple[str, ...] | None:
    """A string is a shell's command line; a list is a program and its arguments."""
    if isinstance(command, str):
        return ("/bin/sh", "-c", command)
    return command


def ssh_options(destination: Destination, pty: Pty | None) -> ssh.SshConnectOptions:
    """Raises InvalidOption for what contradicts itself."""
    request = destination.request
    auth, options, timeouts = request.auth or Auth(), request.ssh_options or SshOptions(), request.timeouts or Timeouts()
    return ssh.SshConnectOptions(
        host=request.host or "",
        port=request.port,
        username=request.username,
        auth=auth_of(auth),
        pty=pty,
        command=request.command,
        env=request.env or {},
        connect_timeout_s=timeouts.connect_timeout_ms / 1000,
        host_keys=ssh.HostKeyOptions(options.host_key_policy, options.known_hosts_path, options.host_key_fingerprint),
        use_openssh_config=options.use_openssh_config,
        config_path=options.config_path,
        jump=destination.hops or (None if options.jump is None else ssh.parse_jump_hosts(options.jump)),
        legacy_algorithms=options.legacy_algorithms,
        keepalive_s=options.keepalive_s,
    )


def _telnet(destination: Destination, timeouts: Timeouts) -> telnet.TelnetConnectOptions:
    request, platform = destination.request, destination.platform
    options = request.telnet_options or TelnetOptions()
    own = "\r" if platform is None else platform.end_of_line
    return telnet.TelnetConnectOptions(
        host=request.host or "",
        port=request.port or 23,
        line_ending=_LINE_ENDINGS.get(own, "auto") if options.line_ending == "auto" else options.line_ending,
        binary=options.binary,
        keepalive=options.keepalive,
        keepalive_s=options.keepalive_s or telnet.KEEPALIVE_S,
        connect_timeout_s=timeouts.connect_timeout_ms / 1000,
    )
