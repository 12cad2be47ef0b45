"""The patterns of a session that was opened with a platform."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from ptyctl.api import Controller, ErrorCode
from ptyctl.platforms import Platforms, loader
from tests.controller.session_calls import BASH, MakeController, Open, config, refused, session

MINE = "title = 'Mine'\nhome = ['cli']\n[modes.cli]\nprompt = '^mine> ?$'\n"
#: A shell whose prompt and errors are a FortiGate's.
FORTIGATE = ["sh", "-c", "while printf 'FGT60F # '; read -r line; do echo 'Unknown action 0'; done"]


@pytest.mark.also_remote("reply of open")
async def test_session_uses_the_platforms_patterns(open_session: Open) -> None:
    handle = await open_session(platform="fortinet_fortios", command=FORTIGATE)
    assert (await config(handle, "get")).expect == Platforms().get("fortinet_fortios").expect()
    assert handle.opened.platform == "fortinet_fortios"
    reply = await handle.exec("foo")
    assert (reply.done_reason, reply.stdout, reply.error_hints) == ("prompt", "Unknown action 0\n", ["Unknown action 0"])


async def test_callers_patterns_override_the_platforms(open_session: Open) -> None:
    handle = await open_session(platform="frr", expect={"prompt_regex": "mine> $"})
    expect = (await config(handle, "get")).expect
    assert expect is not None
    assert expect.prompt_regex == "mine> $"
    assert expect.pager_regexes == Platforms().get("frr").expect().pager_regexes


async def test_shell_platform_sets_no_prompt_pattern(open_session: Open) -> None:
    handle = await open_session(platform="linux")
    assert (await config(handle, "get")).payload()["expect"] == {}


async def test_users_own_platform_is_used(make_controller: MakeController, open_session: Open, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "wrong.toml").write_text(MINE.replace("title", "titel"))
    controller: Controller = await make_controller(platforms_dir=tmp_path)
    handle = await open_session(on=controller, platform="mine")
    expect = (await config(handle, "get")).expect
    assert expect is not None
    assert expect.prompt_regex == "(?:^mine> ?$)"
    capabilities = (await session(controller, "list")).capabilities
    assert capabilities is not None
    assert {"mine", "cisco_ios", "linux"} <= set(capabilities.platforms)
    with refused(ErrorCode.INVALID_ARGUMENT, "wrong.toml: title"):
        await open_session(on=controller, platform="wrong")


@pytest.mark.also_remote("error details")
@pytest.mark.parametrize("name", ["cisco", "../etc/passwd", "Cisco_IOS"])
async def test_unknown_platform_is_unsupported(open_session: Open, name: str) -> None:
    with refused(ErrorCode.UNSUPPORTED, "is not known; use one of: ", "cisco_ios"):
        await open_session(platform=name)


@pytest.fixture
def files_by_thread(monkeypatch: pytest.MonkeyPatch) -> dict[int, set[str]]:
    """The platform files that each thread has read; none is loaded at first."""
    loader._built_in.cache_clear()
    files: dict[int, set[str]] = {}

    def validated(file: Any, tables: dict[str, Any]) -> Any:
        files.setdefault(threading.get_ident(), set()).add(file.name)
        return load(file, tables)

    load = loader._validated
    monkeypatch.setattr(loader, "_validated", validated)
    return files


@pytest.mark.parametrize("name", ["cisco_ios", "auto"])
async def test_platform_is_loaded_outside_the_event_loop(
    make_controller: MakeController, open_session: Open, files_by_thread: dict[int, set[str]], name: str
) -> None:
    controller = await make_controller()
    files_by_thread.clear()
    await open_session(
        on=controller, platform=name, command=["sh", "-c", "printf 'sw1#'; while read line; do printf 'sw1#'; done"]
    )
    assert files_by_thread.pop(threading.get_ident(), set()) == set()
    assert "cisco_ios.toml" in set.union(*files_by_thread.values())


async def test_controller_loads_the_platforms_of_local_shells_when_it_is_made(
    make_controller: MakeController, open_session: Open, files_by_thread: dict[int, set[str]]
) -> None:
    controller = await make_controller()
    assert set.union(*files_by_thread.values()) == {"generic.toml", "linux.toml"}
    files_by_thread.clear()
    handle = await open_session(on=controller, command=BASH)
    await handle.exec("true")
    assert not files_by_thread
