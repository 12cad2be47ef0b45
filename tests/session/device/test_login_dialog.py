"""Login dialogues on consoles that are awake or asleep, with one layer or two, and with left-over input."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.api.errors import ErrorCode
from ptyctl.platforms import Platforms, QuestionAnswer
from ptyctl.platforms.pattern import Pattern
from ptyctl.session.device.login_dialog import LoginDialog, LoginLayer
from tests.session.device.login_consoles import (
    Console,
    MakesStage,
    asleep,
    at_prompt,
    getty,
    half_typed,
    kinds,
    left_over_config,
    left_over_confirmation,
    left_over_pager,
    left_over_question,
    log_in,
    question,
)

PLATFORMS = Platforms()
NAME_AND_PASSWORD = ("Username: ", "Password: ")
INVALID, VERIFICATION = "\n% Login invalid\n\n", "\nUser Access Verification\n\n"
IOS_LOGIN = getty(NAME_AND_PASSWORD, ("admin", "<password 0>"), INVALID, VERIFICATION)


def dialog(family: str, username: bool = True, password: bool = True, answers: tuple[QuestionAnswer, ...] = ()) -> LoginDialog:
    return LoginDialog([LoginLayer(PLATFORMS.get(family), username, password)], answers)


def two_layers(family: str) -> LoginDialog:
    server = LoginLayer(PLATFORMS.get("generic"), True, True)
    return LoginDialog([server, LoginLayer(PLATFORMS.get(family), True, True)])


@pytest.mark.parametrize(
    ("family", "asks", "prompt", "mode"),
    [
        ("cisco_ios", ("Username: ", "Password: "), "sw1>", "user"),
        ("cisco_xr", ("Username: ", "Password: "), "RP/0/RP0/CPU0:ios#", "exec"),
        ("cisco_nxos", ("n9k login: ", "Password: "), "n9k# ", "privileged"),
        ("juniper_junos", ("mx1 (ttyu0)\n\nlogin: ", "Password:"), "{master:0}\nadmin@mx1> ", "exec"),
        ("huawei_vrp", ("Username:", "Password:"), "<HUAWEI>", "user_view"),
        ("hp_comware", ("login: ", "Password: "), "<H3C>", "user_view"),
        ("nokia_sros", ("Login: ", "Password: "), "A:PE1# ", "classic"),
        ("linux", ("Ubuntu 24.04 LTS host ttyS0\n\nhost login: ", "Password: "), "admin@host:~$ ", "user"),
        ("vyos", ("vyos login: ", "Password: "), "admin@vyos:~$ ", "operational"),
        ("generic", ("User name [none]: ", "admin's password: "), "box> ", "cli"),
        ("fortinet_fortios", ("FGT60F login: ", "Password: "), "FGT60F # ", "exec"),
    ],
)
def test_login_with_username_and_password_reaches_prompt(family: str, asks: tuple[str, ...], prompt: str, mode: str) -> None:
    greeting = getty(asks, ("admin", "<password 0>"))
    last, actions = log_in(Console([greeting, at_prompt(prompt)]), dialog(family))
    assert (last.kind, last.mode) == ("done", mode)
    assert kinds(actions) == ["username", "secret"]


def test_login_with_password_only() -> None:
    console = Console([getty(("Password: ",), ("<password 0>",), "\n"), at_prompt("R1> ")])
    last, actions = log_in(console, dialog("frr", username=False))
    assert (last.kind, last.mode, kinds(actions)) == ("done", "user", ["secret"])


def test_login_reaches_colon_prompt_of_the_platform(tmp_path: Path) -> None:
    (tmp_path / "menu.toml").write_text("title = 'Menu'\nhome = ['cli']\n[modes.cli]\nprompt = '^(?:Select|[a-z]+-like): ?$'\n")
    for prompt in ("Select: ", "ftp-like:"):
        layer = LoginLayer(Platforms(tmp_path).get("menu"), username=True, password=True)
        greeting = getty(NAME_AND_PASSWORD, ("admin", "<password 0>"))
        last, actions = log_in(Console([greeting, at_prompt(prompt)]), LoginDialog([layer]))
        assert (last.kind, last.mode, kinds(actions)) == ("done", "cli", ["username", "secret"])


def test_prompt_without_login_is_done() -> None:
    last, actions = log_in(Console([at_prompt("sw1#")]), dialog("cisco_ios", False, False))
    assert (last.kind, last.mode, actions) == ("done", "privileged", [])


@pytest.mark.parametrize("text", ["Press RETURN to get started.", "Press any key to continue", "Press ENTER to get started."])
def test_sleeping_console_is_woken_by_enter(text: str) -> None:
    last, actions = log_in(Console([asleep(text), IOS_LOGIN, at_prompt("sw1>")]), dialog("cisco_ios"))
    assert last.kind == "done"
    assert kinds(actions) == ["clear_line", "enter", "enter", "username", "secret"]


def test_wrong_password_before_the_line_is_closed_fails_with_last_prompt() -> None:
    console = Console([getty(NAME_AND_PASSWORD, ("admin", "right"), INVALID, patience=1)])
    last, actions = log_in(console, dialog("cisco_ios"))
    assert (last.kind, last.code, last.prompt) == ("failed", ErrorCode.AUTH_FAILED, "Password:")
    assert kinds(actions) == ["username", "secret"]
    assert "closed the line; it last asked 'Password:'" in last.why


def test_line_that_is_closed_before_the_login_fails_with_its_last_line() -> None:
    last, actions = log_in(Console([]), dialog("cisco_ios"))
    assert (last.kind, last.code, last.prompt, actions) == ("failed", ErrorCode.CONNECT_FAILED, "Connection closed.", [])
    assert last.why == "the far end closed the line before it asked for a login; the last line is 'Connection closed.'"


@pytest.mark.parametrize("asks", [("Password: ",), ("host login: ", "Password: ")], ids=len)
def test_wrong_password_is_typed_once(asks: tuple[str, ...]) -> None:
    login = dialog("linux", username=len(asks) > 1)
    last, actions = log_in(Console([getty(asks, ("never",) * len(asks), patience=99)]), login)
    assert (last.kind, last.code, last.prompt) == ("failed", ErrorCode.AUTH_FAILED, asks[0].strip())
    assert f"the far end asks again, {asks[0].strip()!r}" in last.why
    assert kinds(actions).count("secret") == 1


def test_endless_username_prompts_fail_login() -> None:
    last, actions = log_in(Console([getty(("login: ",), ("never",), patience=99)]), dialog("linux"))
    assert (last.kind, last.code, last.prompt) == ("failed", ErrorCode.AUTH_FAILED, "login:")
    assert kinds(actions) == ["username"] * 3


@pytest.mark.parametrize(("username", "password", "missing"), [(False, True, "username"), (True, False, "password")])
def test_missing_credential_fails_and_is_named(username: bool, password: bool, missing: str) -> None:
    last, _ = log_in(Console([IOS_LOGIN]), dialog("cisco_ios", username, password))
    assert (last.kind, last.code) == ("failed", ErrorCode.AUTH_FAILED)
    assert f"the device has no {missing}" in last.why
    assert last.hint == f"give the {missing} and open the session again"


@pytest.mark.parametrize(
    ("family", "text", "declined_by"),
    [
        ("cisco_ios", "Would you like to enter the initial configuration dialog? [yes/no]: ", "no\r"),
        ("cisco_ios", "Would you like to terminate autoinstall? [yes]: ", "yes\r"),
        ("cisco_ios", "Enter your selection [2]: ", "0\r"),
        ("cisco_nxos", "Abort Power On Auto Provisioning and continue with normal setup ?(yes/no)[n]: ", "yes\r"),
        ("cisco_nxos", "Would you like to enter the basic configuration dialog (yes/no): ", "no\r"),
        ("cisco_nxos", "no - continue with Power On Auto Provisioning] (yes/skip/no)[no]: ", "skip\r"),
        ("huawei_vrp", "The password needs to be changed. Change now? [Y/N]: ", "N\r"),
        ("mikrotik_routeros", "Do you want to see the software license? [Y/n]: ", "n"),
        ("mikrotik_routeros", "new password> ", "\x03"),
        ("hp_comware", "Automatic configuration is running, press CTRL_C or CTRL_D to break.\n", "\x03"),
        ("hp_comware", "Press Y or ENTER to continue, N to exit.\n", "\r"),
        ("fortinet_fortios", "(Press 'a' to accept):", "a"),
        ("aruba_aoscx", "Enter new password: ", "\r"),
    ],
)
def test_setup_question_is_declined(family: str, text: str, declined_by: str) -> None:
    others = {"huawei_vrp": "<H>", "hp_comware": "<H>", "mikrotik_routeros": "[admin@id] > ", "fortinet_fortios": "H # "}
    last, actions = log_in(Console([question(text, declined_by), at_prompt(others.get(family, "H#"))]), dialog(family))
    assert last.kind == "done"
    assert len(actions) == 1


def test_answers_of_the_caller_come_first() -> None:
    text = "Would you like to enter the initial configuration dialog? [yes/no]: "
    mine = QuestionAnswer(match=Pattern.of("initial configuration dialog"), send="yes")
    last, _ = log_in(Console([question(text, "yes\r"), at_prompt("H#")]), dialog("cisco_ios", answers=(mine,)))
    assert last.kind == "done"


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("cisco_ios", "Enter enable secret: "),
        ("cisco_ios", "Enter new password: "),
        ("cisco_ios", "Confirm password: "),
        ("cisco_nxos", 'Enter the password for "admin": '),
        ("huawei_vrp", "Please configure the login password (8-16)\nEnter Password:"),
        ("huawei_vrp", "Set a password and keep it safe.\nPlease configure the login password (8-16)\nEnter Password:"),
    ],
)
def test_new_password_prompt_fails_login(family: str, text: str) -> None:
    last, actions = log_in(Console([question(text, "nothing")]), dialog(family))
    assert (last.kind, last.code, actions) == ("failed", ErrorCode.AUTH_FAILED, [])
    assert "wants a new password" in last.why
    assert last.hint == "set it by hand"


LEFT_OVERS: dict[str, MakesStage] = {
    "half-typed line": half_typed("reload"),
    "unseen [confirm]": left_over_confirmation("Proceed with reload? [confirm]"),
    "question": left_over_question("Overwrite? [y/n]: "),
    "pager": left_over_pager(" --More-- "),
    "config mode": left_over_config("sw1(config-if)#", "end"),
}


@pytest.mark.parametrize("left_over", LEFT_OVERS)
def test_left_over_input_is_abandoned_and_never_run(left_over: str) -> None:
    last, _ = log_in(Console([LEFT_OVERS[left_over], at_prompt("sw1#")]), dialog("cisco_ios"))
    assert (last.kind, last.mode, last.why) == ("done", "privileged", "")


def test_left_over_configuration_that_cannot_be_left_is_reported() -> None:
    stuck = [
        left_over_config("RP/0/RP0/CPU0:ios(config)#", "end"),
        left_over_question("Uncommitted changes found, commit them before exiting(yes/no/cancel)? [cancel]:"),
        at_prompt("RP/0/RP0/CPU0:ios(config)#"),
    ]
    last, actions = log_in(Console(stuck), dialog("cisco_xr"))
    assert (last.kind, last.mode) == ("done", "config")
    assert kinds(actions) == ["leave_mode", "interrupt"]
    assert "commit or drop it" in last.why


def test_all_commands_that_leave_a_mode_are_typed() -> None:
    config, exec_ = "(ex)[/configure]\nA:admin@pe1# ", "[/]\nA:admin@pe1# "
    console = Console([left_over_config(config, "exit all", "quit-config"), at_prompt(exec_)])
    last, actions = log_in(console, dialog("nokia_sros"))
    assert (last.kind, last.mode, kinds(actions)) == ("done", "md", ["leave_mode", "leave_mode"])


def test_question_that_cannot_be_interrupted_fails_login() -> None:
    last, actions = log_in(Console([at_prompt("Erase everything? [y/n]: ")]), dialog("cisco_ios"))
    assert (last.kind, last.code) == ("failed", ErrorCode.CONNECT_FAILED)
    assert kinds(actions) == ["interrupt"] * 2
    assert "waits for an answer to 'Erase everything? [y/n]:'" in last.why


def test_buried_prompt_is_requested_by_enter() -> None:
    buried = "sw1#\n*Nov 20 17:00:00.123: %SYS-5-CONFIG_I: Configured from console by console\n"
    assert dialog("cisco_ios").heard(buried).kind == "enter"


def test_dead_line_fails_after_three_enters() -> None:
    last, actions = log_in(Console([at_prompt("")]), dialog("cisco_ios"))
    assert (last.kind, last.code) == ("failed", ErrorCode.CONNECT_TIMEOUT)
    assert kinds(actions) == ["clear_line", "enter", "enter", "enter"]


def test_last_login_line_is_not_a_login_prompt() -> None:
    seen = "\nLast login:"
    assert dialog("juniper_junos").heard(seen).kind == "wait"
    assert dialog("juniper_junos").heard(seen + " Thu Nov 20 17:00:00 2026 from 10.0.0.1").kind == "wait"


def test_username_suffix_of_platform_is_appended() -> None:
    login = getty(("Login: ", "Password: "), ("admin+ct511w4098h", "<password 0>"))
    last, _ = log_in(Console([login, at_prompt("[admin@MikroTik] > ")]), dialog("mikrotik_routeros"))
    assert last.kind == "done"


SERVER = getty(NAME_AND_PASSWORD, ("op", "<password 0>"), greets="\nConsole server\n\n")
DEVICE = getty(NAME_AND_PASSWORD, ("admin", "<password 1>"), INVALID, VERIFICATION)


def test_console_server_login_precedes_device_login() -> None:
    last, actions = log_in(Console([SERVER, DEVICE, at_prompt("sw1>")]), two_layers("cisco_ios"), ("op", "admin"))
    assert (last.kind, last.mode) == ("done", "user")
    assert kinds(actions) == ["username", "secret"] * 2
    assert [action.layer for action in actions] == [0, 0, 1, 1]


def test_sleeping_device_behind_console_server_is_woken() -> None:
    stages = [SERVER, asleep("Press RETURN to get started."), DEVICE, at_prompt("sw1>")]
    last, actions = log_in(Console(stages), two_layers("cisco_ios"), ("op", "admin"))
    assert last.kind == "done"
    assert [action.layer for action in actions if action.kind == "secret"] == [0, 1]


def test_bare_login_prompt_after_silence_belongs_to_device() -> None:
    bare = getty(NAME_AND_PASSWORD, ("admin", "<password 1>"), INVALID)
    last, actions = log_in(
        Console([SERVER, half_typed("reload"), bare, at_prompt("sw1>")]), two_layers("cisco_ios"), ("op", "admin")
    )
    assert last.kind == "done"
    assert kinds(actions) == ["username", "secret", "clear_line", "enter", "username", "secret"]


def test_bare_login_prompt_after_password_is_a_refusal() -> None:
    asks_again = getty(NAME_AND_PASSWORD, ("op", "right"), "\n")
    last, actions = log_in(Console([asks_again]), two_layers("cisco_ios"), ("op", "admin"))
    assert (last.kind, last.code) == ("failed", ErrorCode.AUTH_FAILED)
    assert {action.layer for action in actions} == {0}
    assert last.hint == "check the credentials of the console server"


@given(
    st.lists(st.sampled_from(["asleep", "question"]), max_size=2),
    st.sampled_from(["none", "name and password"]),
    st.lists(st.sampled_from(["pager", "config mode"]), max_size=2, unique=True),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["sw1>", "sw1#"]),
)
def test_login_on_any_sequence_of_stages_succeeds(
    before: list[str], login: str, left: list[str], served: bool, torn: bool, prompt: str
) -> None:
    stages: list[MakesStage] = [SERVER] if served else []
    made: dict[str, MakesStage] = {
        "asleep": asleep("Press RETURN to get started."),
        "question": question("Would you like to enter the initial configuration dialog? [yes/no]: ", "no\r"),
        "name and password": DEVICE if served else IOS_LOGIN,
    }
    stages += [made[name] for name in before]
    stages += [made[login]] if login != "none" else []
    stages += [LEFT_OVERS[name] for name in left]
    console = Console([*stages, at_prompt(prompt)], torn)
    family = "cisco_ios"
    last, actions = log_in(console, two_layers(family) if served else dialog(family), ("op" if served else "admin", "admin"))
    assert (last.kind, last.mode) == ("done", "privileged" if prompt.endswith("#") else "user")
    assert sum(action.kind == "secret" for action in actions) == served + (login != "none")


@given(st.sampled_from(PLATFORMS.names()), st.lists(st.text(max_size=60), max_size=30))
def test_secret_is_typed_only_at_password_prompts(family: str, texts: list[str]) -> None:
    login = dialog(family)
    for text in texts:
        action = login.heard(text)
        if action.kind == "secret":
            assert PLATFORMS.get(family).login.password
            assert any(pattern.matches(text.split("\n")[-1]) for pattern in PLATFORMS.get(family).login.password)


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("Benutzername: ", "Kennwort: "),
        ("Anmeldename: ", "Bitte Passwort eingeben: "),
        ("Utilisateur : ", "Mot de passe : "),
        ("Nom d'utilisateur : ", "Mot de passe :"),
        ("Usuario: ", "Contraseña: "),
        ("Usuário: ", "Senha: "),
        ("Nome utente: ", "Password di admin: "),
        ("Gebruikersnaam: ", "Wachtwoord: "),
        ("Användarnamn: ", "Lösenord: "),
        ("Brugernavn: ", "Adgangskode: "),
        ("Käyttäjätunnus: ", "Salasana: "),
        ("Użytkownik: ", "Hasło: "),
        ("Uživatel: ", "Heslo: "),
        ("Jméno: ", "Heslo: "),
        ("Přihlašovací jméno: ", "Heslo: "),
        ("Имя пользователя: ", "Пароль: "),
        ("Kullanıcı adı: ", "Şifre: "),
        ("用户名：", "密码："),
        ("使用者名稱: ", "密碼: "),
        ("ユーザー名: ", "パスワード: "),
        ("사용자 이름: ", "비밀번호: "),
    ],
)
def test_login_prompts_of_other_languages_get_username_and_password(name: str, password: str) -> None:
    last, actions = log_in(Console([getty((name, password), ("admin", "<password 0>")), at_prompt("box# ")]), dialog("generic"))
    assert (last.kind, kinds(actions)) == ("done", ["username", "secret"])


@pytest.mark.parametrize(
    "text",
    [
        "Neues Kennwort: ",
        "Kennwort wiederholen: ",
        "Nouveau mot de passe : ",
        "Nueva contraseña: ",
        "Nowe hasło: ",
        "Новый пароль: ",
        "Повторите пароль: ",
        "新密码：",
        "再次输入密码：",
        "新しいパスワード: ",
        "새 비밀번호: ",
        "Yeni parola: ",
    ],
)
def test_prompt_for_a_new_password_in_another_language_fails_without_input(text: str) -> None:
    last, actions = log_in(Console([question(text, "nothing")]), dialog("generic"))
    assert (last.kind, last.code, actions) == ("failed", ErrorCode.AUTH_FAILED, [])


def new_terminal(family: str, *, only_if_asked: bool = False) -> LoginDialog:
    return LoginDialog([LoginLayer(PLATFORMS.get(family), True, True)], new_terminal=True, only_if_asked=only_if_asked)


@pytest.mark.parametrize(
    "text",
    [
        "Enter PIN: ",
        "Domain [local]: ",
        "Verification code: ",
        "1) shell\n2) menu\nChoice? ",
        "Accept the terms? [y/n]: ",
        "验证码：",
    ],
)
@pytest.mark.parametrize("family", ["cisco_ios", "huawei_vrp", "generic"])
def test_unknown_question_in_a_new_terminal_gets_no_key_and_is_named(family: str, text: str) -> None:
    last, actions = log_in(Console([question(text, "nothing")]), new_terminal(family))
    assert (last.kind, last.code, actions) == ("failed", ErrorCode.CONNECT_FAILED, [])
    assert text.split("\n")[-1].strip() in last.why


def test_questions_with_known_answers_before_the_password_are_answered_in_a_new_terminal() -> None:
    answers = (
        QuestionAnswer(match=Pattern.of(r"^Choice\? $"), send="2"),
        QuestionAnswer(match=Pattern.of("^Domain"), send="local"),
    )
    stages = [question("1) shell\n2) device\nChoice? ", "2\r"), question("Press any key to continue", "\r")]
    stages += [getty(("User:",), ("admin",)), question("Domain: ", "local\r"), getty(("Password:",), ("<password 0>",))]
    login = LoginDialog([LoginLayer(PLATFORMS.get("cisco_ios"), True, True)], answers, new_terminal=True)
    last, actions = log_in(Console([*stages, at_prompt("sw1#")]), login)
    assert (last.kind, kinds(actions)) == ("done", ["answer", "enter", "username", "answer", "secret"])


def test_unknown_command_line_without_a_question_is_left_without_input() -> None:
    for text in ("Welcome", "Enter PIN: ", "Accept the terms? [y/n]: ", "Choice: "):
        last, actions = log_in(Console([question(text, "nothing")]), new_terminal("generic", only_if_asked=True))
        assert (last.kind, actions) == ("left", [])


def test_unknown_command_line_that_asks_gets_its_login() -> None:
    console = Console([getty(("User: ", "Password:"), ("admin", "<password 0>")), at_prompt("(Wireless Controller) >")])
    last, actions = log_in(console, new_terminal("generic", only_if_asked=True))
    assert (last.kind, last.mode, kinds(actions)) == ("done", "cli", ["username", "secret"])


def test_prompt_of_another_family_after_the_password_ends_the_login_with_a_notice() -> None:
    console = Console([getty(("User: ", "Password:"), ("admin", "<password 0>")), at_prompt("(Wireless Controller) >")])
    last, actions = log_in(console, new_terminal("cisco_ios"))
    assert (last.kind, last.mode, kinds(actions)) == ("done", None, ["username", "secret"])
    assert "(Wireless Controller) >" in last.why
