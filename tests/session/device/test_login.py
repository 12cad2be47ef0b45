"""Logins on scripted consoles on a virtual clock: slow and silent ones, and ones that close the line."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from fixtures.virtual_clock import run_virtually
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.platforms import Platforms
from ptyctl.session.calls.mode_change import mode_at
from ptyctl.session.calls.session_preparation import prepare
from ptyctl.session.device.login import LoginAccount, LoginCredentials
from ptyctl.session.session import Session
from tests.session.scripted_session import Console, connect_session, run_command, split_at, write_to

FAMILIES = Platforms()
PASSWORD, SERVERS = "Kr0kodil-unterm-Bett", "Ein-Port-weiter-rechts"
DEVICE = LoginAccount("admin", SecretStr(PASSWORD))
ADMIN = LoginCredentials((DEVICE,), prepare=False)
ENABLE = "Nilpferd_am_Klavier"
PREPARED = LoginCredentials((DEVICE,), enable_secret=SecretStr(ENABLE))
TWO_LAYERS = LoginCredentials((LoginAccount("ports", SecretStr(SERVERS)), DEVICE), prepare=False)
VERIFICATION = b"\r\nUser Access Verification\r\n\r\nUsername: "

Script = Callable[[Console], Awaitable[None]]


async def _logged_in(
    script: Script, credentials: LoginCredentials, family: str, folder: Path
) -> tuple[Session, PtyctlError | None]:
    console = Console()
    session = await connect_session(folder, console, platform=family, expect=FAMILIES.get(family).expect())
    session.platform, session.credentials = FAMILIES.get(family), credentials
    device, refusal = asyncio.ensure_future(script(console)), None
    try:
        await prepare(session, FAMILIES)
    except PtyctlError as error:
        refusal = error
    device.cancel()
    outcome = (await asyncio.gather(device, return_exceptions=True))[0]
    assert outcome is None or isinstance(outcome, asyncio.CancelledError), outcome
    return session, refusal


def log_in(script: Script, accounts: LoginCredentials = ADMIN, family: str = "cisco_ios") -> dict[str, Any]:
    """The result of a login: the mode, the seconds, the error, and the input log."""

    async def run(folder: Path) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        session, refusal = await _logged_in(script, accounts, family, folder)
        took = loop.time() - begun
        mode, arrival = mode_at(session), session.login_notice
        rows = [json.loads(line) for line in (folder / "s" / "input.jsonl").read_bytes().splitlines()]
        await session.close(force=True)
        kept = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        assert PASSWORD.encode() not in kept
        return {"mode": mode, "took": took, "refusal": refusal, "typed": rows, "said": arrival}

    with tempfile.TemporaryDirectory() as name:
        return run_virtually(run(Path(name)))


async def usual(console: Console, prompt: bytes = b"\r\nsw1>") -> None:
    console.feed(VERIFICATION)
    await console.expect_input(b"admin\r", b"admin\r\nPassword: ")
    await console.expect_input(f"{PASSWORD}\r".encode(), prompt)


def test_text_of_caller_during_login_is_refused() -> None:
    """Otherwise it would be part of the name or of the password."""

    async def run(folder: Path) -> None:
        console = Console()
        session = await connect_session(folder, console, platform="cisco_ios")
        session.platform, session.credentials = FAMILIES.get("cisco_ios"), ADMIN
        login, device = asyncio.create_task(prepare(session, FAMILIES)), asyncio.create_task(usual(console))
        tries = 0
        await asyncio.sleep(0)
        while not login.done():
            for call in (write_to(session, data="show version\n"), run_command(session, "show version")):
                with pytest.raises(PtyctlError, match="busy with its login") as refusal:
                    await call
                assert (refusal.value.code, refusal.value.details["reason"]) == (ErrorCode.BUSY, "reserved")
            await asyncio.sleep(0.01)
            tries += 1
        await asyncio.gather(login, device)
        assert (tries > 5, bytes(console.written)) == (True, b"")
        await write_to(session, data="show version\n")
        await session.close(force=True)

    with tempfile.TemporaryDirectory() as name:
        run_virtually(run(Path(name)))


@pytest.mark.parametrize(
    ("encoding", "name", "password"),
    [
        ("gbk", "用户名：", "密码："),
        ("gb18030", "登录名: ", "密码: "),
        ("big5", "使用者名稱：", "密碼："),
        ("shift_jis", "ログイン: ", "パスワード: "),
        ("euc_jp", "ユーザー名: ", "パスワード: "),
        ("cp949", "사용자 이름: ", "비밀번호: "),
        ("cp1251", "Имя пользователя: ", "Пароль: "),
        ("koi8_r", "Логин: ", "Пароль: "),
        ("cp866", "Логин: ", "Пароль: "),
        ("latin-1", "Benutzer: ", "Schlüsselwort: "),
        ("latin-1", "Användarnamn: ", "Lösenord: "),
        ("cp850", "Käyttäjätunnus: ", "Contraseña: "),
        ("cp1250", "Użytkownik: ", "Hasło: "),
        ("iso8859_2", "Přihlašovací jméno: ", "Heslo: "),
        ("cp1254", "Kullanıcı adı: ", "Şifre: "),
    ],
)
def test_login_prompts_in_other_encodings_are_answered(encoding: str, name: str, password: str) -> None:
    async def script(console: Console) -> None:
        console.feed(f"\r\n{name}".encode(encoding))
        await console.expect_input(b"admin\r", f"admin\r\n{password}".encode(encoding))
        await console.expect_input(f"{PASSWORD}\r".encode(), b"\r\nbox# ")

    done = log_in(script, family="generic")
    assert (done["mode"], done["refusal"]) == ("cli", None)
    assert done["took"] < 2


def test_refusal_in_another_encoding_ends_the_login() -> None:
    async def script(console: Console) -> None:
        console.feed("\r\n用户名：".encode("gbk"))
        await console.expect_input(b"admin\r", "admin\r\n密码：".encode("gbk"))
        await console.expect_input(f"{PASSWORD}\r".encode(), "\r\n密码错误\r\n用户名：".encode("gbk"))

    refusal = log_in(script, family="generic")["refusal"]
    assert refusal is not None
    assert refusal.code is ErrorCode.AUTH_FAILED
    assert "用户名" in refusal.message


def test_login_input_is_logged_as_system_and_secrets_by_length() -> None:
    done = log_in(usual)
    assert (done["mode"], done["refusal"], done["said"]) == ("user", None, None)
    name, password = done["typed"]
    assert (name["by"], name["data"]) == ("system", "admin\r")
    assert (password["by"], password["sensitive"], password["bytes"]) == ("system", True, len(PASSWORD) + 1)
    assert "data" not in password


async def enabled(console: Console) -> None:
    await usual(console)
    await console.expect_input(b"enable\r", b"enable\r\nPassword: ")
    await console.expect_input(f"{ENABLE}\r".encode(), b"\r\nsw1#")


def test_answers_directly_below_echo_need_no_settle_time() -> None:
    """Only the first question and a new prompt must settle."""

    async def script(console: Console) -> None:
        await enabled(console)
        await console.expect_input(b"terminal length 0\r", b"terminal length 0\r\nsw1#")
        await console.expect_input(b"terminal width 512\r", b"terminal width 512\r\nsw1#")

    done = log_in(script, PREPARED)
    assert (done["mode"], done["said"]) == ("privileged", None)
    assert done["took"] < 0.5


def test_prompt_in_output_that_pauses_must_outlast_the_pause() -> None:
    async def script(console: Console) -> None:
        await enabled(console)
        await console.expect_input(b"terminal length 0\r", b"terminal length 0\r\nA notice to all ")
        await asyncio.sleep(0.05)
        console.feed(b"users of\r\nsw1#")
        await asyncio.sleep(0.09)
        assert not console.written
        console.feed(b" will be restarted at noon\r\nsw1#")
        await console.expect_input(b"terminal width 512\r", b"terminal width 512\r\nsw1#")

    assert log_in(script, PREPARED)["mode"] == "privileged"


@pytest.mark.parametrize("answer", [b"", b"\r\n", b"\r\nAuthenticating, please wait...\r\n"])
def test_slow_password_check_is_awaited_without_input(answer: bytes) -> None:
    async def script(console: Console) -> None:
        console.feed(VERIFICATION)
        await console.expect_input(b"admin\r", b"admin\r\n")
        await asyncio.sleep(9)
        console.feed(b"Password: ")
        await console.expect_input(f"{PASSWORD}\r".encode(), answer)
        await asyncio.sleep(20)
        console.feed(b"\r\nsw1>")

    done = log_in(script)
    assert done["mode"] == "user"
    assert len(done["typed"]) == 2


@pytest.mark.parametrize("prompt", ["Menu [1-9]: ", "Select: ", "Command (m for help):"])
@pytest.mark.parametrize("pause_s", [0, 10])
def test_prompt_that_ends_in_a_colon_ends_the_login_of_an_unknown_device(prompt: str, pause_s: float) -> None:
    async def script(console: Console) -> None:
        await usual(console, b"\r\n")
        await asyncio.sleep(pause_s)
        console.feed(b"Welcome\r\n1) ports\r\n2) users\r\n" + prompt.encode())

    done = log_in(script, replace(ADMIN, prepare=True), "generic")
    assert (done["mode"], done["refusal"], done["said"], len(done["typed"])) == (None, None, None, 2)
    assert pause_s <= done["took"] < pause_s + 3


@pytest.mark.parametrize(
    "refusal",
    [
        b"% Login invalid\r\nTry again: ",
        b"Enter PIN: ",
        b"Accept the terms? [yes/no]: ",
        b"Verification code: ",
        b"OTP: ",
        b"Token: ",
        b"Challenge: ",
        b"Domain: ",
        b"Contacting AAA servers:",
    ],
)
def test_question_after_the_password_of_an_unknown_device_is_no_prompt(refusal: bytes) -> None:
    async def script(console: Console) -> None:
        await usual(console, b"\r\n" + refusal)

    assert log_in(script, family="generic")["refusal"] is not None


def test_colon_prompt_that_enter_shows_again_ends_the_login() -> None:
    async def script(console: Console) -> None:
        console.feed(b"Select: ")
        await console.expect_input(b"\x15", b"")
        for _ in range(2):
            await console.expect_input(b"\r", b"\r\nSelect: ")

    assert log_in(script, family="generic")["refusal"] is None


@pytest.mark.parametrize("question", [b"Konto: ", b"Zugang: ", b"Account: ", b"Logon: "])
def test_question_that_enter_shows_again_is_no_prompt(question: bytes) -> None:
    async def script(console: Console) -> None:
        console.feed(question)
        await console.expect_input(b"\x15", b"")
        for _ in range(3):
            await console.expect_input(b"\r", b"\r\n" + question)

    assert log_in(script, family="generic")["refusal"] is not None


def test_device_that_waits_for_another_enter_gets_one_before_the_time_limit() -> None:
    async def script(console: Console) -> None:
        await usual(console, b"\r\n")
        await console.expect_input(b"\x15", b"")
        await console.expect_input(b"\r", b"\r\nsw1>")

    done = log_in(script)
    assert done["mode"] == "user"
    assert 34 <= done["took"] <= 40


def test_password_without_answer_fails_at_the_time_limit() -> None:
    async def script(console: Console) -> None:
        await usual(console, b"\r\nAuthenticating, please wait...\r\n")

    done = log_in(script)
    assert done["refusal"].code is ErrorCode.CONNECT_TIMEOUT
    assert "within 45 s, and did not answer 'Password:'" in done["refusal"].message
    assert (len(done["typed"]), done["took"]) == (2, 45)


def test_refusal_without_a_new_prompt_is_auth_failed() -> None:
    async def script(console: Console) -> None:
        await usual(console, b"\r\n% Authentication failed\r\n")

    done = log_in(script)
    assert done["refusal"].code is ErrorCode.AUTH_FAILED
    assert "shows '% Authentication failed'; it last asked 'Password:'" in done["refusal"].message
    assert len(done["typed"]) == 2


@pytest.mark.parametrize("check_s", [0.0, 20.0])
@pytest.mark.parametrize("again", [b"Username: ", b"Password: "])
def test_refused_password_is_typed_once(check_s: float, again: bytes) -> None:
    async def script(console: Console) -> None:
        await usual(console, b"\r\n")
        await asyncio.sleep(check_s)
        console.feed(b"% Login invalid\r\n\r\n" + again)

    done = log_in(script)
    assert (done["refusal"].code, done["refusal"].details["prompt"]) == (ErrorCode.AUTH_FAILED, again.decode().strip())
    assert len(done["typed"]) == 2
    assert done["took"] < check_s + 2


def test_password_prompt_that_is_repainted_is_no_refusal() -> None:
    async def script(console: Console) -> None:
        await usual(console, b"\r\n*Nov 20 17:00:00.123: %LINK-3-UPDOWN: Interface Gi1/0/7, changed state to up\r\nPassword: ")
        await asyncio.sleep(0.5)
        console.feed(b"\r\nsw1>")

    assert log_in(script)["mode"] == "user"


def test_slow_console_server_gets_no_input_while_it_checks() -> None:
    async def script(console: Console) -> None:
        console.feed(b"\r\nlogin: ")
        await console.expect_input(b"ports\r", b"ports\r\nPassword: ")
        await console.expect_input(f"{SERVERS}\r".encode(), b"\r\n")
        await asyncio.sleep(20)
        await usual(console)

    done = log_in(script, TWO_LAYERS)
    assert (done["mode"], len(done["typed"])) == ("user", 4)


def test_device_asleep_behind_silent_console_server_is_woken() -> None:
    async def script(console: Console) -> None:
        console.feed(b"\r\nlogin: ")
        await console.expect_input(b"ports\r", b"ports\r\nPassword: ")
        await console.expect_input(f"{SERVERS}\r".encode(), b"\r\n")
        await console.expect_input(b"\x15", b"")
        await console.expect_input(b"\r", VERIFICATION)
        await console.expect_input(b"admin\r", b"admin\r\nPassword: ")
        await console.expect_input(f"{PASSWORD}\r".encode(), b"\r\nsw1#")

    assert log_in(script, TWO_LAYERS)["mode"] == "privileged"


def test_dead_line_fails_with_connect_timeout() -> None:
    async def script(console: Console) -> None:
        await asyncio.sleep(3600)

    done = log_in(script)
    assert done["refusal"].code is ErrorCode.CONNECT_TIMEOUT
    assert "no prompt after 3 Enters" in done["refusal"].message
    assert done["took"] < 20


def test_console_that_never_pauses_fails_at_the_time_limit() -> None:
    async def script(console: Console) -> None:
        while True:
            console.feed(b"*Nov 20 17:00:00.123: %LINK-3-UPDOWN: Interface Gi1/0/7, changed state to up\r\n")
            await asyncio.sleep(0.05)

    done = log_in(script)
    assert done["refusal"].code is ErrorCode.CONNECT_TIMEOUT
    assert "no prompt was shown within 45 s" in done["refusal"].message
    assert 45 <= done["took"] < 46


def test_banner_that_pauses_after_a_look_alike_is_not_a_prompt() -> None:
    async def script(console: Console) -> None:
        console.feed(b"\r\n* Authorised use only #")
        await asyncio.sleep(0.2)
        await usual(console)

    assert log_in(script)["mode"] == "user"


@pytest.mark.parametrize("where", ["name", "password"])
def test_far_end_that_closes_fails_login(where: str) -> None:
    async def script(console: Console) -> None:
        console.feed(VERIFICATION)
        if where == "password":
            await console.expect_input(b"admin\r", b"admin\r\nPassword: ")
        await asyncio.sleep(0.05)
        console.end()

    refusal = log_in(script)["refusal"]
    if where == "name":
        assert (refusal.code, refusal.retryable) == (ErrorCode.CONNECT_FAILED, True)
    else:
        assert refusal.code is ErrorCode.AUTH_FAILED
        assert "it last asked 'Password:'" in refusal.message


def test_password_prompt_that_another_user_left_is_answered_before_the_login() -> None:
    async def script(console: Console) -> None:
        console.feed(b"\r\nPassword: ")
        await console.expect_input(f"{PASSWORD}\r".encode(), b"\r\n% Login invalid\r\n")
        await usual(console)

    assert log_in(script)["mode"] == "user"


def test_console_server_then_sleeping_device() -> None:
    async def script(console: Console) -> None:
        console.feed(b"\r\nlogin: ")
        await console.expect_input(b"ports\r", b"ports\r\nPassword: ")
        await console.expect_input(f"{SERVERS}\r".encode(), b"\r\nConnected to port 7.\r\n")
        await console.expect_input(b"\x15", b"")
        await console.expect_input(b"\r", b"\r\n\r\nsw1 con0 is now available\r\n\r\nPress RETURN to get started.\r\n\r\n")
        await console.expect_input(b"\r", VERIFICATION)
        await console.expect_input(b"admin\r", b"admin\r\nPassword: ")
        await console.expect_input(f"{PASSWORD}\r".encode(), b"\r\nsw1#")

    assert log_in(script, TWO_LAYERS)["mode"] == "privileged"


def test_configuration_that_cannot_be_left_is_in_login_notice() -> None:
    async def script(console: Console) -> None:
        console.feed(b"\r\nRP/0/RP0/CPU0:r1(config)#")
        question = b"\r\nUncommitted changes found, commit them before exiting(yes/no/cancel)? [cancel]:"
        await console.expect_input(b"end\r", b"end" + question)
        await console.expect_input(b"\x03", b"\r\nRP/0/RP0/CPU0:r1(config)#")

    done = log_in(script, family="cisco_xr")
    assert done["mode"] == "config"
    assert "commit or drop it" in done["said"]


async def test_exec_during_login_is_busy(tmp_path: Path) -> None:
    console = Console()
    session = await connect_session(tmp_path, console, platform="cisco_ios")
    session.platform, session.credentials = FAMILIES.get("cisco_ios"), ADMIN
    login = asyncio.ensure_future(prepare(session, FAMILIES))
    await asyncio.sleep(0)
    with pytest.raises(PtyctlError, match="busy with its login") as caught:
        await run_command(session, "show clock")
    assert caught.value.code is ErrorCode.BUSY
    await usual(console)
    await login
    await session.close(force=True)


@given(places=st.lists(st.integers(0, 10_000), max_size=20), gap_s=st.sampled_from([0.0, 0.004, 0.05, 0.09]))
def test_login_is_independent_of_chunk_boundaries(places: list[int], gap_s: float) -> None:
    """With gaps shorter than the settle time of a question."""

    async def say(console: Console, data: bytes) -> None:
        for piece in split_at(data, places):
            console.feed(piece)
            await asyncio.sleep(gap_s)

    async def script(console: Console) -> None:
        await say(console, b"\r\n# sw1# is for staff only >\r\nLast login: never\r\n" + VERIFICATION)
        await console.expect_input(b"admin\r", b"")
        await say(console, b"admin\r\nPassword: ")
        await console.expect_input(f"{PASSWORD}\r".encode(), b"")
        await say(console, b"\r\nThe password expires in 7 days.\r\n\r\nsw1#")

    assert log_in(script)["mode"] == "privileged"
