"""Loading of platform files: built-in ones, a user's own, and faulty ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.platforms import Platforms

FAMILIES = [
    "arista_eos", "aruba_aoscx", "cisco_ios", "cisco_nxos", "cisco_xr", "fortinet_fortios", "frr", "generic", "hp_comware",
    "hp_procurve", "huawei_vrp", "juniper_junos", "linux", "mikrotik_routeros", "nokia_sros", "vyos",
]  # fmt: skip
SMALL = 'title = "Mine"\nhome = ["cli"]\n[modes.cli]\nprompt = \'^mine> ?$\'\n'


def write(folder: Path, text: str, name: str = "mine.toml") -> Platforms:
    (folder / name).write_text(text)
    return Platforms(folder)


def test_built_in_platforms_are_valid() -> None:
    platforms = Platforms()
    assert list(platforms.names()) == FAMILIES
    assert platforms.faults() == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_built_in_platform_has_required_lists(family: str) -> None:
    platform = Platforms().get(family)
    assert platform.title
    assert platform.login.username
    assert platform.login.password
    assert platform.login.failures
    assert platform.confirmations
    assert platform.errors.exec
    if family not in ("generic", "linux"):
        assert platform.pagers
        assert platform.exit
        assert platform.detect.command
        assert any(mode.config for mode in platform.modes.values())
        assert platform.terminal.paging_off or family in ("fortinet_fortios", "mikrotik_routeros")


def test_user_file_replaces_built_in_and_gets_common_lists(tmp_path: Path) -> None:
    write(tmp_path, SMALL)
    platforms = write(tmp_path, SMALL.replace("Mine", "My own IOS"), "cisco_ios.toml")
    assert platforms.get("cisco_ios").title == "My own IOS"
    assert platforms.get("mine").login.username == platforms.get("generic").login.username
    assert platforms.get("mine").confirmations == platforms.get("generic").confirmations
    assert set(platforms.names()) == {*FAMILIES, "mine"}


def test_pager_needs_only_a_pattern(tmp_path: Path) -> None:
    (pager,) = write(tmp_path, SMALL + "[[pagers]]\npattern = '^--More--$'\n").get("mine").pagers
    assert (str(pager.pattern), pager.key, pager.quit) == ("^--More--$", " ", "q")


def test_common_list_is_appended_to_users_list(tmp_path: Path) -> None:
    platforms = write(tmp_path, SMALL + "[login]\nusername = ['^who: ?$']\nusername_suffix = '+x'\n")
    login, common = platforms.get("mine").login, platforms.get("generic").login
    assert [str(pattern) for pattern in login.username] == ["^who: ?$", *map(str, common.username)]
    assert (login.password, login.username_suffix) == (common.password, "+x")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("title = ", "mine.toml is not valid TOML: "),
        (SMALL.replace("title", "titel"), "mine.toml: title: Field required; titel: unknown field; did you mean title?"),
        (SMALL.replace("^mine>", "(?=x)"), "modes.cli.prompt: .*RE2 has no lookahead"),
        (SMALL.replace('["cli"]', '["exec"]'), "home names the mode 'exec', which is not one of: cli"),
        (SMALL.replace('"Mine"', "7"), "title: Input should be a valid string"),
        (SMALL.replace('"Mine"', "2026-11-20\nsettle_ms = '5'"), "settle_ms: Input should be a valid integer"),
        (SMALL + "[modes.cli.to.exec]\ncommands = ['x']", "modes.cli.to names the mode 'exec'"),
        (SMALL + "[modes.cli.to.cli]\ncommands = []", "modes.cli.to.cli.commands: should not be empty"),
        (SMALL + "[[pagers]]\npattern = 'x'\nerased_by = 'magic'", r"pagers\[0\].erased_by: Input should be 'carriage_return'"),
        (SMALL + "[[save]]\ncommands = ['s']\nmodes = ['no']", r"save\[0\].modes names the mode 'no'"),
        (SMALL + "[[save]]\ncommands = ['s']\ndialog = [{ match = 'x' }]", r"save\[0\].dialog\[0\]: needs send or secret"),
        (SMALL + "[login]\nusername = 'who'", "login.username: Input should be an array"),
        ("free_text = ['end it']\n" + SMALL, "free_text needs one group, .* 'end it' has 0"),
        ("login = 'x'\n" + SMALL, "login: Input should be"),
        (SMALL + "[detect]\nbanners = [{ pattern = 'x', ratio = 0.5 }]", r"detect.banners\[0\].ratio: .* greater than 1"),
    ],
)
def test_faulty_file_error_names_file_and_field(tmp_path: Path, text: str, told: str) -> None:
    platforms = write(tmp_path, text)
    with pytest.raises(PtyctlError, match=told) as error:
        platforms.get("mine")
    assert error.value.code is ErrorCode.INVALID_ARGUMENT
    assert str(tmp_path / "mine.toml") in error.value.message
    assert list(platforms.faults()) == ["mine"]
    assert platforms.get("cisco_ios").title


def test_faulty_common_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PtyctlError, match=r"generic\.toml: title: "):
        write(tmp_path, SMALL.replace('"Mine"', "7"), "generic.toml").get("cisco_ios")


def test_file_with_invalid_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(PtyctlError, match=r"mine\.toml is not valid TOML"):
        Platforms(tmp_path).get("mine")


def test_invalid_file_name_missing_folder_and_unknown_platform_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PtyctlError, match="lower-case letters, digits and _"):
        write(tmp_path, SMALL, "My-Own.toml")
    with pytest.raises(PtyctlError, match="cannot be read: No such file or directory"):
        Platforms(tmp_path / "missing")
    with pytest.raises(PtyctlError, match="'cisco' is not known") as unknown:
        Platforms().get("cisco")
    assert unknown.value.code is ErrorCode.UNSUPPORTED
    assert "cisco_ios" in (unknown.value.hint or "")


ATOMS = st.booleans() | st.integers() | st.text(max_size=5)
VALUES = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=3), max_leaves=4)


@given(VALUES)
def test_value_of_any_wrong_type_is_refused(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    written = str(value).replace("True", "true").replace("False", "false") if not isinstance(value, str) else repr(value)
    folder = tmp_path_factory.mktemp("own")
    for field in ("look_alikes", "home", "settle_ms", "login", "modes"):
        platforms = write(folder, f"{field} = {written}\ntitle = 'x'\n")
        with pytest.raises(PtyctlError, match=r"mine\.toml"):
            platforms.get("mine")


def test_platform_with_too_complex_prompts_in_all_is_named(tmp_path: Path) -> None:
    other = "[modes.other]\nprompt = '^.{0,900}# ?$'\n"
    with pytest.raises(PtyctlError, match=r"mine\.toml: the pattern is too complex") as caught:
        write(tmp_path, SMALL.replace("^mine", "^.{0,500}") + other).get("mine")
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
