"""The platform file of `frr` against FRR's zebra over Telnet, as its `verified` field states."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from fixtures.servers.frr import Zebra, running_zebra
from ptyctl.api.errors import ErrorCode
from ptyctl.platforms import Detection, ModeGraph, Platforms, ShownPrompt
from ptyctl.session.device.login_dialog import LoginAction, LoginDialog, LoginLayer
from tests.platforms.shown_lines import ShownLines

PLATFORMS = Platforms()
FRR = PLATFORMS.get("frr")
#: IAC commands and options (RFC 854); the NAWS subnegotiation (RFC 1073) sets 80 columns and 10 rows.
_COMMAND = re.compile(rb"\xff(?:[\xfb-\xfe].|\xfa.*?\xff\xf0|[^\xfa-\xfe])", re.DOTALL)
_WINDOW = b"\xff\xfb\x1f\xff\xfa\x1f\0\x50\0\x0a\xff\xf0"
_LIMIT_S = 120.0


class Vty:
    """A minimal blocking Telnet client that negotiates only its window size."""

    def __init__(self, zebra: Zebra) -> None:
        self._socket = socket.create_connection((zebra.host, zebra.port), timeout=_LIMIT_S)
        self._socket.sendall(_WINDOW)
        self._shown = ShownLines()

    def close(self) -> None:
        self._socket.close()

    def shown(self) -> str:
        return self._shown.text()

    def more(self) -> bool:
        """Wait for output; False at the end of the connection."""
        data = self._socket.recv(65536)
        self._shown.add(_COMMAND.sub(b"", data))
        return bool(data)

    def type(self, text: str, *, enter: bool = True) -> None:
        self._shown.typed()
        self._socket.sendall(text.encode() + (b"\r\0" if enter else b""))

    def prompt(self) -> ShownPrompt:
        while (shown := FRR.profile.shown_prompt(self.shown().split("\n"))) is None:
            assert self.more()
        return shown


@pytest.fixture(scope="module")
def zebra() -> Iterator[Zebra]:
    with running_zebra() as server:
        yield server


@pytest.fixture
def vty(zebra: Zebra) -> Iterator[Vty]:
    client = Vty(zebra)
    yield client
    client.close()


def log_in(vty: Vty, password: str) -> LoginAction:
    login = LoginDialog([LoginLayer(FRR, password=True)])
    while True:
        action = login.heard(vty.shown())
        if action.kind in ("done", "failed"):
            return action
        if action.kind == "secret":
            vty.type(password)
        elif not vty.more():
            return login.closed(vty.shown())


def walk(vty: Vty, source: str, target: str, enable: str) -> ShownPrompt:
    for step in ModeGraph(FRR).path(source, target):
        for command in step.transition.commands:
            vty.type(command)
            for answer in step.transition.dialog:
                while not answer.match.matches(vty.shown().split("\n")[-1]):
                    assert vty.more()
                assert answer.secret == "enable"
                vty.type(enable)
            shown = vty.prompt()
        assert shown.mode == step.target
    return shown


def test_verified_version_is_the_installed_one(vty: Vty) -> None:
    while "version 8.4" not in vty.shown():
        assert vty.more()
    assert FRR.verified == "FRR 8.4 zebra over Telnet"


def test_banner_alone_identifies_frr(vty: Vty) -> None:
    while not vty.shown().endswith("Password: "):
        assert vty.more()
    detection = Detection(PLATFORMS.all())
    detection.banner(vty.shown())
    assert detection.result().sure
    assert detection.result().family == "frr"


def test_login_and_path_through_all_modes(vty: Vty, zebra: Zebra) -> None:
    done = log_in(vty, zebra.password)
    assert (done.kind, done.mode) == ("done", "user")
    assert walk(vty, "user", "config", zebra.enable_password).prompt == "R1(config)# "
    assert walk(vty, "config", "user", zebra.enable_password).prompt == "R1> "


def test_wrong_password_fails_with_last_prompt(vty: Vty) -> None:
    refused = log_in(vty, "wrong")
    assert (refused.kind, refused.code, refused.prompt) == ("failed", ErrorCode.AUTH_FAILED, "Password:")


def test_pager_errors_and_paging_off_command(vty: Vty, zebra: Zebra) -> None:
    log_in(vty, zebra.password)
    walk(vty, "user", "privileged", zebra.enable_password)
    vty.type("list")
    pager, *_ = FRR.pagers  # the other patterns are for vtysh
    while not pager.pattern.matches(vty.shown().split("\n")[-1]):
        assert vty.more()
    vty.type(pager.quit, enter=False)
    vty.prompt()
    vty.type("no such command")
    vty.prompt()
    assert any(pattern.matches(line) for pattern in FRR.error_patterns("privileged") for line in vty.shown().split("\n"))
    (paging_off,) = FRR.terminal.paging_off
    vty.type(paging_off.commands[0])
    vty.prompt()
    vty.type("list")
    vty.prompt()
    assert len(vty.shown().split("\n")) > 100


def test_left_over_pager_is_quit_by_login(vty: Vty, zebra: Zebra) -> None:
    log_in(vty, zebra.password)
    walk(vty, "user", "privileged", zebra.enable_password)
    vty.type("list")
    login = LoginDialog([LoginLayer(FRR)])
    while (action := login.heard(vty.shown())).kind == "wait":
        assert vty.more()
    assert action.kind == "quit_pager"
    vty.type(action.text, enter=action.enter)
    assert vty.prompt().mode == "privileged"
