"""Secrets from the environment, files, the keyring and commands, and the errors of each."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.inventory.secrets import CommandSecret, EnvironmentSecret, FileSecret, KeyringSecret, SecretReference, fetch_secret
from tests.inventory.inventory_file import script

FIELD = "devices.a.password"
SECRET = "h\u00fcnter2 #>"


async def fetched(reference: SecretReference, folder: Path = Path("/")) -> str:
    return (await fetch_secret(reference, FIELD, folder)).get_secret_value()


async def refused(reference: SecretReference, told: str, code: ErrorCode, folder: Path = Path("/")) -> None:
    with pytest.raises(PtyctlError) as caught:
        await fetch_secret(reference, FIELD, folder)
    assert re.search(told, f"{caught.value.message}; {caught.value.hint}")
    assert caught.value.code is code
    assert caught.value.message.startswith(f"{FIELD} (")
    assert caught.value.details == {"field": FIELD}
    assert "nter2" not in repr(caught.value.payload())


class TestEnvironment:
    async def test_variable_is_read_at_each_use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for value in (SECRET, "other"):
            monkeypatch.setenv("SW_PASSWORD", value)
            assert await fetched(EnvironmentSecret(name="SW_PASSWORD")) == value

    async def test_unset_variable_is_refused(self) -> None:
        await refused(EnvironmentSecret(name="SW_NONE"), "SW_NONE.* is not set", ErrorCode.INVALID_ARGUMENT)

    async def test_empty_or_undecodable_variable_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SW_PASSWORD", "")
        await refused(EnvironmentSecret(name="SW_PASSWORD"), "empty first line", ErrorCode.INVALID_ARGUMENT)
        monkeypatch.setenv("SW_PASSWORD", os.fsdecode(b"hunter2\xff"))
        await refused(EnvironmentSecret(name="SW_PASSWORD"), "not in UTF-8", ErrorCode.INVALID_ARGUMENT)


class TestFile:
    def file(self, folder: Path, mode: int = 0o600, text: str = f"{SECRET}\r\nnotes\n") -> FileSecret:
        path = folder / "pw"
        path.write_text(text)
        path.chmod(mode)
        return FileSecret(path="pw")

    async def test_relative_path_starts_at_the_inventory(self, tmp_path: Path) -> None:
        assert await fetched(self.file(tmp_path), tmp_path) == SECRET

    async def test_path_expands_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert await fetched(FileSecret(path="~/pw")) == SECRET

    @pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o601])
    async def test_file_that_others_can_read_is_refused(self, mode: int, tmp_path: Path) -> None:
        reference = self.file(tmp_path, mode)
        await refused(reference, f"chmod 600 {tmp_path}/pw", ErrorCode.POLICY_DENIED, tmp_path)

    async def test_missing_file_and_folder_are_io_errors(self, tmp_path: Path) -> None:
        await refused(FileSecret(path="pw"), "No such file", ErrorCode.IO_ERROR, tmp_path)
        await refused(FileSecret(path="."), "Is a directory", ErrorCode.IO_ERROR, tmp_path)

    async def test_named_pipe_is_refused_without_waiting(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pw", 0o600)
        await refused(FileSecret(path="pw"), "not a regular file", ErrorCode.INVALID_ARGUMENT, tmp_path)

    async def test_empty_file_is_refused(self, tmp_path: Path) -> None:
        await refused(self.file(tmp_path, text="\nhunter2\n"), "empty first line", ErrorCode.INVALID_ARGUMENT, tmp_path)


class TestCommand:
    async def test_first_line_of_output_is_the_secret(self, tmp_path: Path) -> None:
        program = script(tmp_path, f'printf "%s\\n%s\\n" "$1" "user: x"; echo {SECRET!r} >&2')
        assert await fetched(CommandSecret(command=(program, SECRET))) == SECRET

    async def test_no_shell_interprets_the_arguments(self) -> None:
        assert await fetched(CommandSecret(command=("echo", "$HOME;", "`id`"))) == "$HOME; `id`"

    async def test_command_gets_no_input(self, tmp_path: Path) -> None:
        program = script(tmp_path, "cat; echo done")
        assert await fetched(CommandSecret(command=(program,))) == "done"

    async def test_failed_command_error_hides_its_output(self, tmp_path: Path) -> None:
        program = script(tmp_path, "echo hunter2; echo hunter2 >&2; exit 3")
        await refused(CommandSecret(command=(program,)), "ended with status 3; run it by hand", ErrorCode.IO_ERROR)

    async def test_failed_command_error_hides_its_arguments(self, tmp_path: Path) -> None:
        program = script(tmp_path, "exit 1")
        await refused(CommandSecret(command=(program, "hunter2")), "ended with status 1", ErrorCode.IO_ERROR)

    async def test_killed_command_is_an_io_error(self, tmp_path: Path) -> None:
        program = script(tmp_path, "kill -9 $$")
        await refused(CommandSecret(command=(program,)), "ended with status -9", ErrorCode.IO_ERROR)

    async def test_missing_program_is_refused(self, tmp_path: Path) -> None:
        await refused(CommandSecret(command=(str(tmp_path / "x"),)), "No such file", ErrorCode.INVALID_ARGUMENT)

    async def test_hanging_command_is_killed_with_its_children(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "alive")
        # A reader of the pipe sees its end when the last writer has exited.
        program = script(tmp_path, f"exec 3<>{tmp_path}/alive; sleep 1000 & wait")
        reader = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
        await refused(CommandSecret(command=(program,), timeout_s=0.5), "did not end within 0.5 s", ErrorCode.IO_ERROR)
        os.set_blocking(reader, True)
        assert await asyncio.to_thread(os.read, reader, 1) == b""
        os.close(reader)

    async def test_endless_output_times_out(self) -> None:
        await refused(CommandSecret(command=("yes", ""), timeout_s=0.5), "did not end", ErrorCode.IO_ERROR)


class Keys(KeyringBackend):
    """A keyring in memory. `fault` is raised instead of an answer."""

    priority = 1

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}
        self.fault: Exception | None = None

    def get_password(self, service: str, username: str) -> str | None:
        if self.fault is not None:
            raise self.fault
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password


class TestKeyring:
    REFERENCE = KeyringSecret(service="net/core", user="admin")

    @pytest.fixture
    def keys(self) -> Iterator[Keys]:
        before, keys = keyring.get_keyring(), Keys()
        keyring.set_keyring(keys)
        yield keys
        keyring.set_keyring(before)

    async def test_keyring_entry_is_the_secret(self, keys: Keys) -> None:
        keys.set_password("net/core", "admin", SECRET)
        assert await fetched(self.REFERENCE) == SECRET

    async def test_missing_keyring_entry_is_refused(self, keys: Keys) -> None:
        await refused(self.REFERENCE, "keyring set net/core admin", ErrorCode.INVALID_ARGUMENT)

    async def test_locked_keyring_is_an_io_error(self, keys: Keys) -> None:
        keys.fault = KeyringLocked("hunter2")
        await refused(self.REFERENCE, "KeyringLocked.*unlock", ErrorCode.IO_ERROR)

    async def test_missing_keyring_package_is_unsupported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "keyring", None)
        await refused(self.REFERENCE, r"pip install 'ptyctl\[keyring\]'", ErrorCode.UNSUPPORTED)
