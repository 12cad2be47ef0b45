"""SSH login with password and keyboard-interactive, its errors, and the negotiated algorithms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncssh
import pytest

from fixtures.servers.inprocess_ssh import USER, FakeSshd, LoginPolicy, running_ssh_server
from fixtures.ssh import open_channel, options_for
from transports.errors import AuthFailed, ConnectFailed
from transports.ssh import SshAuth
from transports.ssh.attempt import _asks_for_password

PEM = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()


@pytest.fixture(scope="module")
def key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


async def refused(server: FakeSshd, auth: SshAuth, **more: Any) -> AuthFailed:
    with pytest.raises(AuthFailed) as caught:
        async with open_channel(options_for(server.port, auth=auth, **more)):
            pass
    return caught.value


async def test_login_with_password_succeeds(tmp_path: Path) -> None:
    async with running_ssh_server(LoginPolicy(password="pw")) as server:
        for method in ("password", "auto"):
            async with open_channel(options_for(server.port, auth=SshAuth(method, "pw"))):
                assert server.attempts.pop() == ("password", "pw")


async def test_login_with_wrong_password_reports_offered_methods(key: asyncssh.SSHKey) -> None:
    async with running_ssh_server(LoginPolicy(password="pw", key=key)) as server:
        error = await refused(server, SshAuth("password", "wr0ng"))
    assert error.details["offered"] == ["publickey", "password"]
    assert error.details["tried"] == ["password"]
    assert "the server offers publickey, password" in error.message
    assert USER in error.message
    assert "wr0ng" not in str(error) + repr(error.details)
    assert server.attempts == [("password", "wr0ng")]


async def test_login_sends_wrong_password_once() -> None:
    """A server with both methods would count two failures, and some lock the account after three."""
    async with running_ssh_server(LoginPolicy(password="pw", rounds=[["Password: "]], answers=["pw"])) as server:
        error = await refused(server, SshAuth("password", "wrong"))
        assert server.attempts == [("keyboard-interactive", "wrong")]
    assert error.details["tried"] == ["keyboard-interactive"]
    assert not error.details["prompts"]


async def test_login_with_connection_dropped_at_wrong_password_raises_auth_failed() -> None:
    async with running_ssh_server(LoginPolicy(password="pw", drops_line=True)) as server:
        error = await refused(server, SshAuth("password", "wrong"))
    assert error.details["tried"] == ["password"]


async def test_login_without_credentials_hints_what_to_give(key: asyncssh.SSHKey) -> None:
    async with running_ssh_server(LoginPolicy(password="pw", key=key)) as server:
        error = await refused(server, SshAuth())
    assert error.hint is not None
    assert "private_key_path" in error.hint
    assert "a password" in error.hint
    assert error.details["tried"] == []


@pytest.mark.parametrize(
    "rounds",
    [
        [["Password: "]],
        [["admin@switch's password:"]],
        [["(admin@switch) Password: "]],
        [["Password for admin:"]],
        [["Password for admin@EXAMPLE.ORG: "]],
        [["Password: ", "Enable Password: "]],
        [[], ["Password:"], []],
    ],
)
async def test_login_answers_password_prompts(rounds: list[list[str]]) -> None:
    answers = ["pw" for prompts in rounds for _ in prompts]
    async with (
        running_ssh_server(LoginPolicy(rounds=rounds, answers=answers)) as server,
        open_channel(options_for(server.port, auth=SshAuth("password", "pw"))),
    ):
        assert [answer for _, answer in server.attempts] == answers


@pytest.mark.parametrize(
    ("rounds", "asked"),
    [
        ([["Verification code: "]], ["Verification code:"]),
        ([["Password: ", "Token\x1b[2J:"]], ["Token [2J:"]),
        ([["Password: "], ["Duo passcode or option (1-3):", "Password:"]], ["Duo passcode or option (1-3):"]),
        ([["One-time password:"]], ["One-time password:"]),
        ([["Enter PASSCODE:"]], ["Enter PASSCODE:"]),
        ([["Password for token:"]], ["Password for token:"]),
        ([["SMS-Kennwort:"]], ["SMS-Kennwort:"]),
        ([["x" * 500]], ["x" * 79 + "…"]),
    ],
)
async def test_login_reports_prompts_it_cannot_answer(rounds: list[list[str]], asked: list[str]) -> None:
    async with running_ssh_server(LoginPolicy(rounds=rounds, answers=["?"])) as server:
        error = await refused(server, SshAuth("auto", "pw"))
    assert error.details["prompts"] == asked
    assert all(f'"{prompt}"' in error.message for prompt in asked)


async def test_login_without_password_reports_prompts() -> None:
    async with running_ssh_server(LoginPolicy(rounds=[["Token:"]], answers=["?"])) as server:
        assert (await refused(server, SshAuth())).details["prompts"] == ["Token:"]


@pytest.mark.parametrize(
    ("rounds", "answers"),
    [
        ([["Verification code: "]], ["123456"]),
        ([["Password: "], ["One-time password (OATH) for `admin':"]], ["pw", "123456"]),
        ([["Password: ", "Token\x1b[2J:"]], ["pw", "123456"]),
        ([["Duo passcode or option (1-3):"]], ["123456"]),
    ],
)
@pytest.mark.parametrize("method", ["auto", "password"])
async def test_login_answers_prompts_for_a_code(rounds: list[list[str]], answers: list[str], method: Any) -> None:
    async with (
        running_ssh_server(LoginPolicy(rounds=rounds, answers=answers)) as server,
        open_channel(options_for(server.port, auth=SshAuth(method, "pw", one_time_code="123456"))),
    ):
        assert [answer for _, answer in server.attempts] == answers


async def test_login_sends_code_once() -> None:
    async with running_ssh_server(LoginPolicy(rounds=[["Code: "], ["Code: "]], answers=["1", "1"])) as server:
        await refused(server, SshAuth("private_key", private_key_pem=PEM, one_time_code="123456"))
        assert [answer for _, answer in server.attempts].count("123456") == 1


async def test_login_tries_password_after_unanswerable_prompt() -> None:
    async with (
        running_ssh_server(LoginPolicy(password="pw", rounds=[["Token:"]], answers=["?"])) as server,
        open_channel(options_for(server.port, auth=SshAuth("auto", "pw"))),
    ):
        assert server.attempts == [("password", "pw")]


async def test_login_uses_given_password_despite_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("PreferredAuthentications publickey\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n")
    fields = {"use_openssh_config": True, "config_path": str(config)}
    async with running_ssh_server(LoginPolicy(password="pw")) as server:
        for auth in (SshAuth("password", "pw"), SshAuth("auto", "pw")):
            async with open_channel(options_for(server.port, auth=auth, **fields)):
                pass


async def test_login_banner_contains_version_and_greeting() -> None:
    login = LoginPolicy(password="pw", banner="Authorised\r\nusers only\r\n")
    async with (
        running_ssh_server(login, server_version="Switch_1.0") as server,
        open_channel(options_for(server.port, auth=SshAuth("password", "pw"))) as (channel, _),
    ):
        assert channel.server_banner == "SSH-2.0-Switch_1.0\nAuthorised\nusers only"


async def test_long_login_banner_is_cut() -> None:
    login = LoginPolicy(password="pw", banner="x" * 30_000)
    async with (
        running_ssh_server(login) as server,
        open_channel(options_for(server.port, auth=SshAuth("password", "pw"))) as (channel, _),
    ):
        assert len(channel.server_banner or "") < 5000


async def test_login_banner_in_other_encoding_is_decoded_with_replacement() -> None:
    login = LoginPolicy(password="pw", banner="Zugriff für Befugte".encode("latin-1"))
    async with (
        running_ssh_server(login) as server,
        open_channel(options_for(server.port, auth=SshAuth("password", "pw"))) as (channel, _),
    ):
        assert "Zugriff f\ufffdr Befugte" in (channel.server_banner or "")


async def test_connection_is_never_compressed(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Compression yes\n")
    fields = {"use_openssh_config": True, "config_path": str(config)}
    async with (
        running_ssh_server(LoginPolicy(password="pw")) as server,
        open_channel(options_for(server.port, auth=SshAuth("password", "pw"), **fields)),
    ):
        (connection,) = server.live
        assert connection.get_extra_info("send_compression") == "none"
        assert connection.get_extra_info("recv_compression") == "none"


# cryptography warns about finite-field Diffie-Hellman, the only key exchange of such a device.
@pytest.mark.filterwarnings("ignore:Diffie-Hellman over finite fields")
async def test_legacy_server_needs_legacy_algorithms_option() -> None:
    rsa = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
    old: dict[str, Any] = {
        "server_host_keys": [rsa],
        "kex_algs": ["diffie-hellman-group1-sha1"],
        "encryption_algs": ["aes128-cbc"],
        "mac_algs": ["hmac-md5"],
        "signature_algs": ["ssh-rsa"],
    }
    async with running_ssh_server(LoginPolicy(password="pw"), **old) as server:
        with pytest.raises(ConnectFailed, match=r"no key exchange .* offers diffie-hellman-group1-sha1") as caught:
            async with open_channel(options_for(server.port, auth=SshAuth("password", "pw"))):
                pass
        assert "legacy_algorithms" in (caught.value.hint or "")
        async with open_channel(options_for(server.port, auth=SshAuth("password", "pw"), legacy_algorithms=True)):
            pass


@pytest.mark.parametrize(
    "prompt",
    [
        *("Password", "PASSWORD: ", "Enter password:", "Enter your password: ", "Login password:", "LDAP Password: "),
        *("UNIX password: ", "admin@switch's password: ", "(admin@switch) Password: ", "Password for admin: "),
        *("Password for 'admin@REALM': ", "Kennwort: ", "Passwort für admin: ", "Mot de passe : ", "Mot de passe\u00a0: "),
        *("Contraseña: ", "Contrasen\u0303a: ", "Senha:", "Palavra-passe:", "Parola: ", "Password di admin: ", "Wachtwoord: "),
        *("Lösenord: ", "Adgangskode: ", "Passord: ", "Salasana: ", "Hasło: ", "Heslo: ", "Пароль: ", "Şifre: ", "Jelszó: "),
        *("密码：", "密碼: ", "请输入密码：", "口令：", "パスワード: ", "비밀번호: ", "암호: "),
    ],
)
def test_prompt_that_is_the_word_password_in_any_language_is_answered(prompt: str) -> None:
    assert _asks_for_password(prompt, "admin")


@pytest.mark.parametrize(
    "prompt",
    [
        *("Neues Kennwort: ", "Nouveau mot de passe : ", "新密码：", "Einmalpasswort: ", "一次性密码：", "Nueva contraseña: "),
        *("Contraseña de un solo uso:", "Contraseña temporal (SMS):", "Senha de uso único:", "Senha descartável:"),
        *("Password monouso:", "Jednorázové heslo:", "Kertakäyttöinen salasana:", "Kertakäyttösalasana:", "Parola temporanea:"),
        *("Tijdelijk wachtwoord:", "Dynamisches Passwort:", "SMS-Kennwort:", "TAN / SMS-Passwort:", "Token-Kennwort:"),
        *(
            "일회용 비밀번호:",
            "認証パスワード（ワンタイム）:",
            "动态密码:",
            "短信密码:",
            "验证密码:",
            "Mot de passe à usage unique :",
        ),
        *("Mot de passe SMS :", "Mot de passe temporaire :", "Salasana uudestaan:", "Ny adgangskode:", "Cambie su contraseña:"),
        *("Das Passwort ändern:", "Ange lösenord igen:", "Heslo ještě jednou:", "Hasło ponownie:", "Пароль ещё раз:"),
        *("Passwort noch einmal:", "Contraseña otra vez:", "Password (again):", "New password:", "Retype password: "),
        *("Повторите пароль: ", "PIN: ", "Domain: ", "Password or token:", "Password for root: ", "Password for token: "),
        *("Enter PASSCODE: ", "Passphrase: ", "token's password: ", "Password:\nToken: ", "Enter the code\nPassword: ", ""),
    ],
)
def test_prompt_with_anything_else_around_the_word_password_is_not_answered(prompt: str) -> None:
    assert not _asks_for_password(prompt, "admin")
