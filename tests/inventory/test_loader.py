"""Reading devices.toml: refused content, error messages, and edits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.inventory import Inventory
from tests.inventory.inventory_file import inventory, write

SSH = 'protocol = "ssh"\nhost = "192.0.2.1"\n'

BAD = {
    "no TOML": ("[devices.a\n", "the file: is not valid TOML: .*line 1"),
    "twice the same device": (f"[devices.a]\n{SSH}[devices.a]\n{SSH}", "is not valid TOML: .*line 4"),
    "an unknown table": ("[device.a]\n", "device: unknown field"),
    "an unknown field": (f'[devices.a]\n{SSH}adress = "x"\n', r"devices\.a\.adress: unknown field"),
    "a port of the wrong type": (f'[devices.a]\n{SSH}port = "22"\n', r"devices\.a\.port: .*integer"),
    "a port out of range": ("[groups.g]\nport = 70000\n", r"groups\.g\.port: .*65535"),
    "a protocol": ('[defaults]\nprotocol = "rlogin"\n', r"defaults\.protocol: .*'ssh' or 'telnet'"),
    "an option of SSH": (
        f"[devices.a]\n{SSH}[devices.a.ssh_options]\nkeys = 1\n",
        r"devices\.a\.ssh_options\.keys: unknown field",
    ),
    "a misspelt command": (
        f'[devices.a]\n{SSH}password = {{ comand = ["x"] }}\n',
        r"devices\.a\.password: .*comand: unknown field",
    ),
    "a text for a time": (
        f'[devices.a]\n{SSH}password = {{ command = ["x"], timeout_s = "5" }}\n',
        r"devices\.a\.password: timeout_s: .*number",
    ),
    "no command": (f"[devices.a]\n{SSH}password = {{ command = [] }}\n", r"devices\.a\.password: command: should not be empty"),
    "a number for a secret": (f"[devices.a]\n{SSH}password = 7\n", r"devices\.a\.password: is not a reference"),
    "no pattern": (
        f'[devices.a]\n{SSH}login = {{ answers = [{{ match = "(", send = "y" }}] }}\n',
        r"devices\.a\.login\.answers\.0\.match: '\(' is not a valid pattern",
    ),
    "half an answer": (
        f'[devices.a]\n{SSH}login = {{ answers = [{{ match = "x" }}] }}\n',
        r"devices\.a\.login\.answers\.0: needs send or secret",
    ),
    "no host": ('[devices.a]\nprotocol = "ssh"\n', r"devices\.a: has neither host nor console"),
    "no protocol": ('[devices.a]\nhost = "h"\n', r"devices\.a\.protocol: is missing"),
    "an unknown group": (f'[devices.a]\ngroups = ["g"]\n{SSH}', r"devices\.a: there is no \[groups\.g\]"),
    "a group of a group": (
        f'[devices.a]\ngroups = ["g"]\n{SSH}[groups.g]\ngroups = ["h"]\n',
        r"devices\.a: there is no \[groups\.h\]",
    ),
    "a circle": (
        f'[devices.a]\ngroups = ["g"]\n{SSH}[groups.g]\ngroups = ["h"]\n[groups.h]\ngroups = ["g"]\n',
        r"devices\.a: its groups form a cycle: g > h > g",
    ),
    "a group twice": (f'[devices.a]\ngroups = ["g", "g"]\n{SSH}[groups.g]\n', r"devices\.a\.groups: names g more than once"),
    "an unknown jump host": (f'[devices.a]\njump = ["j"]\n{SSH}', r"devices\.a\.jump: there is no \[jump_hosts\.j\]"),
    "telnet past a jump host": (
        '[devices.a]\njump = ["j"]\nprotocol = "telnet"\nhost = "h"\n[jump_hosts.j]\nhost = "j"\n',
        r"devices\.a\.jump: .*telnet \(jump = \[\]",
    ),
    "two ways": (
        f'[devices.a]\njump = ["j"]\n{SSH}ssh_options = {{jump = "k"}}\n[jump_hosts.j]\nhost = "j"\n',
        r"devices\.a\.jump: and ssh_options\.jump both",
    ),
    "an unknown server": ('[devices.a]\nconsole = {server = "s", port = 1}\n', r"devices\.a\.console\.server: there is no"),
    "a server without lines": (
        '[console_servers.s]\nhost = "h"\nprotocol = "telnet"\n',
        r"console_servers\.s: does not select the line",
    ),
    "a line past all ports": (
        '[console_servers.s]\nhost = "h"\nprotocol = "telnet"\nbase_port = 65000\n'
        '[devices.a]\nconsole = {server = "s", port = 900}\n',
        r"devices\.a\.console\.port: exceeds 65535",
    ),
    "two devices on a line": (
        '[console_servers.s]\nhost = "h"\nprotocol = "telnet"\nbase_port = 2000\n'
        '[devices.a]\nconsole = {server = "s", port = 9}\n[devices.b]\nconsole = {server = "s", port = 9}\n',
        r"devices\.b\.console: port 9 of s is also the line of a",
    ),
    "two consoles of a name": (
        f'[devices.a]\nsession_type = "console"\n{SSH}[devices.b]\nsession_type = "console"\ndevice_id = "a"\n{SSH}',
        r"devices\.b\.device_id: a is also the console name of a",
    ),
    "host and console": (
        '[console_servers.s]\nhost = "h"\nprotocol = "telnet"\nbase_port = 2000\n'
        '[devices.a]\nhost = "x"\nconsole = {server = "s", port = 9}\n',
        r"devices\.a: has both host and console",
    ),
    "a name with a blank": (f'[devices."a b"]\n{SSH}', r"devices\.a b.*: .*pattern"),
    "a name for no console": (f'[devices.a]\ndevice_id = "x"\n{SSH}', r"devices\.a\.device_id: is for devices with"),
}


@pytest.mark.parametrize(("text", "told"), BAD.values(), ids=BAD)
async def test_fault_names_file_and_field(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(PtyctlError, match=told) as caught:
        await inventory(tmp_path, text).devices()
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert caught.value.message.startswith(f"{tmp_path / 'devices.toml'}: ")
    assert caught.value.details["file"] == str(tmp_path / "devices.toml")
    assert caught.value.hint == "correct the file; it is read again at the next use"


@pytest.mark.parametrize("field", ["password", "enable_secret", "passphrase"])
@pytest.mark.parametrize("secret", ["hunter2", "hun:ter2", "env:", "env:hun-ter2", "keyring:hunter2", 'file:"'])
async def test_literal_secret_is_refused_and_not_repeated(field: str, secret: str, tmp_path: Path) -> None:
    text = f"[devices.a]\n{SSH}{field} = '{secret}'\n" if '"' not in secret else f'[devices.a]\n{SSH}{field} = "file:"\n'
    with pytest.raises(PtyctlError, match=rf"devices\.a\.{field}: ") as caught:
        await inventory(tmp_path, text).devices()
    assert "ter2" not in repr(caught.value.payload())


async def test_details_list_all_faults(tmp_path: Path) -> None:
    text = "".join(f'[devices.d{number}]\nprotocol = "ssh"\n' for number in range(8))
    with pytest.raises(PtyctlError, match="and 3 more") as caught:
        await inventory(tmp_path, text).devices()
    assert [fault["field"] for fault in caught.value.details["faults"]] == [f"devices.d{number}" for number in range(8)]


async def test_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(PtyctlError, match="there is no inventory") as caught:
        await Inventory(tmp_path / "devices.toml").devices()
    assert "PTYCTL_DEVICES_FILE" in (caught.value.hint or "")
    assert caught.value.code is ErrorCode.NOT_FOUND


async def test_unreadable_file_is_an_io_error(tmp_path: Path) -> None:
    (tmp_path / "devices.toml").mkdir()
    with pytest.raises(PtyctlError, match="cannot be read") as caught:
        await Inventory(tmp_path / "devices.toml").devices()
    assert caught.value.hint == "check its owner and mode"
    assert caught.value.code is ErrorCode.IO_ERROR


async def test_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "devices.toml").write_bytes(b"# \xff\n")
    with pytest.raises(PtyctlError, match="not in UTF-8"):
        await Inventory(tmp_path / "devices.toml").devices()


async def test_world_writable_file_is_refused(tmp_path: Path) -> None:
    found = inventory(tmp_path, "")
    found.path.chmod(0o666)
    with pytest.raises(PtyctlError, match="world-writable") as caught:
        await found.devices()
    assert caught.value.hint == f"run: chmod o-w {found.path}"
    assert caught.value.code is ErrorCode.POLICY_DENIED


async def test_edit_applies_at_the_next_use(tmp_path: Path) -> None:
    found = inventory(tmp_path, f"[devices.a]\n{SSH}")
    assert list(await found.devices()) == ["a"]
    write(found.path, f"[devices.b]\n{SSH}")
    assert list(await found.devices()) == ["b"]
    write(found.path, "[devices.b]\n")
    with pytest.raises(PtyctlError):
        await found.devices()
    with pytest.raises(PtyctlError, match="neither host"):
        await found.devices()
    write(found.path, f"[devices.c]\n{SSH}")
    assert list(await found.devices()) == ["c"]


async def test_replaced_file_with_equal_time_and_size_is_read_again(tmp_path: Path) -> None:
    found = inventory(tmp_path, f"[devices.a]\n{SSH}")
    assert list(await found.devices()) == ["a"]
    before = found.path.stat()
    other = tmp_path / "new"
    other.write_text(f"[devices.b]\n{SSH}")
    other.chmod(0o644)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(found.path)
    assert list(await found.devices()) == ["b"]


async def test_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    found = inventory(tmp_path, f"[devices.a]\n{SSH}")
    assert await found.devices() is await found.devices()


async def test_unknown_device_error_suggests_similar_names(tmp_path: Path) -> None:
    found = inventory(tmp_path, f"[devices.switch-001]\n{SSH}")
    with pytest.raises(PtyctlError, match=r"no device 'switch-01'") as caught:
        await found.resolve("switch-01")
    assert caught.value.hint == "did you mean switch-001?"
    assert caught.value.code is ErrorCode.NOT_FOUND
    with pytest.raises(PtyctlError) as caught:
        await found.resolve("zzz")
    assert caught.value.hint is NextStep.LIST_DEVICES
