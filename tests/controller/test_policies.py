"""The policy in force: where it is from, reloads, and files that cannot be loaded."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.operator import AuditRequest
from ptyctl.api.policy import PolicyRequest
from ptyctl.controller import policies
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.controller.policies import PolicyStore
from ptyctl.controller.settings import Settings
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.platforms import Platforms
from ptyctl.policy.rules import DecisionRequest
from ptyctl.session.clients import Client, serving
from tests.controller.session_calls import BASH, PATIENCE_MS, refused, write

RELOAD = DecisionRequest("reload", "cisco_ios", mode="privileged")
ROUTER = DecisionRequest("router bgp 1", "cisco_ios", mode="config")
#: Faulty files, and what the error names.
FAULTS = [
    ("default = ", "not valid TOML"),
    ('defualt = "allow"', "policy.toml:1: defualt"),
    ('[[rules]]\nid = "r"\ncommand = ["x"]\nreason = "y"\ndecision = "maybe"', "policy.toml:1: rule 'r': decision"),
    ('[[rules]]\nid = "r"\nregex = "(?<=x)y"\nreason = "y"\ndecision = "ask"', "policy.toml:1: rule 'r': regex: "),
    (
        '\n[[rules]]\nid = "r"\ncommand = ["x"]\nreason = "y"\ndecision = "ask"\nmatches = ["z"]',
        "policy.toml:2: rule 'r': the example 'z' in matches",
    ),
    ('extends = ["other.toml"]', "other.toml cannot be read: No such file"),
    ('extends = ["a\\u0000b"]', "is no name of a policy file"),
    ('extends = ["~no-such-user/a.toml"]', "~no-such-user/a.toml cannot be read: No such file"),
    (b"\xff", "not UTF-8"),
]


def rule(rule_id: str = "router", decision: str = "deny") -> str:
    return f'[[rules]]\nid = "{rule_id}"\ncommand = ["{rule_id}"]\ndecision = "{decision}"\nreason = "not here"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the configuration."""
    (tmp_path / "config.toml").touch()
    monkeypatch.setenv("PTYCTL_CONFIG", str(tmp_path / "config.toml"))
    return tmp_path


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    """The rows of the audit log."""
    return []


@pytest.fixture
def load(folder: Path, rows: list[dict[str, Any]]) -> Callable[..., PolicyStore]:
    def store(policy: str | None = None) -> PolicyStore:
        return PolicyStore(
            Settings(policy=policy), Platforms(), lambda event, **fields: rows.append({"event": event, **fields})
        )

    return store


def decision(store: PolicyStore, request: DecisionRequest) -> str:
    return str(store.verdict(request).decision)


def test_guarded_is_in_force_without_setting_and_file(load: Callable[..., PolicyStore]) -> None:
    store = load()
    assert (store.name, store.problem, decision(store, RELOAD)) == ("guarded", None, "ask")
    assert len(store.sha256) == 64


def test_policy_file_next_to_the_configuration_is_in_force(folder: Path, load: Callable[..., PolicyStore]) -> None:
    (folder / "policy.toml").write_text('extends = ["readonly"]')
    store = load()
    assert (store.name, decision(store, RELOAD)) == (str(folder / "policy.toml"), "deny")
    assert store.sha256 == hashlib.sha256((folder / "policy.toml").read_bytes()).hexdigest()


def test_setting_names_a_preset_or_a_file(
    folder: Path, load: Callable[..., PolicyStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "policy.toml").write_text('extends = ["readonly"]')
    (folder / "night.toml").write_bytes(rule().replace("\n", "\r\n").encode())
    assert decision(load("off"), RELOAD) == "allow"
    assert decision(load("night.toml"), ROUTER) == "deny"
    assert decision(load(str(folder / "night.toml")), RELOAD) == "allow"
    monkeypatch.setenv("PTYCTL_POLICY", "off")
    assert Settings().policy == "off"


def test_load_is_recorded_with_the_hash_of_every_file(
    folder: Path, load: Callable[..., PolicyStore], rows: list[dict[str, Any]]
) -> None:
    (folder / "policy.toml").write_text('extends = ["guarded", "team/base.toml"]')
    (folder / "team").mkdir()
    (folder / "team" / "base.toml").write_text(rule())
    store = load()
    (row,) = rows
    assert (row["event"], row["policy"], row["result"]) == ("policy", store.name, "loaded")
    paths = [folder / "policy.toml", folder / "team" / "base.toml"]
    assert row["files"] == {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    assert store.sha256 == hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_faulty_file_at_the_first_load_denies_everything(
    folder: Path, load: Callable[..., PolicyStore], rows: list[dict[str, Any]], text: str | bytes, message: str
) -> None:
    (folder / "policy.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    store = load()
    for request in (RELOAD, ROUTER, DecisionRequest("ls", "linux")):
        with refused(ErrorCode.POLICY_DENIED, message):
            store.verdict(request)
    assert [row["result"] for row in rows] == ["failed"]
    (folder / "policy.toml").write_text(rule())
    store.refresh()
    assert (store.problem, decision(store, ROUTER)) == (None, "deny")


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_faulty_file_at_a_reload_leaves_the_policy_in_force(
    folder: Path,
    load: Callable[..., PolicyStore],
    rows: list[dict[str, Any]],
    caplog: pytest.LogCaptureFixture,
    text: str | bytes,
    message: str,
) -> None:
    (folder / "policy.toml").write_text(rule())
    store = load()
    sha256 = store.sha256
    (folder / "policy.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with refused(ErrorCode.INVALID_ARGUMENT, message):
        store.reload("admin")
    assert (decision(store, ROUTER), store.sha256) == ("deny", sha256)
    assert (rows[-1]["result"], rows[-1]["principal"]) == ("failed", "admin")
    assert store.problem == rows[-1]["why"]
    assert "could not be loaded" in caplog.text


def test_unreadable_file_denies_everything(folder: Path, load: Callable[..., PolicyStore]) -> None:
    """The link leads to itself: not even root can read it."""
    (folder / "policy.toml").symlink_to("policy.toml")
    with refused(ErrorCode.POLICY_DENIED, "policy.toml cannot be read: Too many levels"):
        load().verdict(ROUTER)


@pytest.mark.parametrize(("text", "message"), [*FAULTS, (None, "policy.toml cannot be read")])
async def test_nothing_is_typed_while_no_policy_can_be_loaded(folder: Path, text: str | bytes | None, message: str) -> None:
    if text is None:
        (folder / "policy.toml").symlink_to("policy.toml")  # it cannot be read
    else:
        (folder / "policy.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    async with (
        LocalController(Settings(state_dir=folder / "state")) as controller,
        await SessionHandle.open(controller, protocol="local", command=BASH, cwd=str(folder)) as shell,
    ):
        with refused(ErrorCode.POLICY_DENIED, message):
            await shell.exec("touch ran", timeout_ms=PATIENCE_MS)
        with refused(ErrorCode.POLICY_DENIED, message):
            await write(shell, data="touch ran\n")
        with refused(ErrorCode.POLICY_DENIED, message):
            await SessionHandle.open(controller, protocol="local", command=("touch", "ran"), cwd=str(folder))
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("name", "message"), [("gaurded", "gaurded cannot be read"), ("/", "is not a file"), ("/dev/zero", "is not a file")]
)
def test_setting_that_names_no_policy_denies_everything(load: Callable[..., PolicyStore], name: str, message: str) -> None:
    store = load(name)
    with refused(ErrorCode.POLICY_DENIED, message, "or a preset: off, guarded, readonly"):
        store.verdict(ROUTER)


def test_user_platform_file_that_is_faulty_denies_on_that_platform_only(folder: Path, tmp_path: Path) -> None:
    (folder / "platforms").mkdir()
    (folder / "platforms" / "lab.toml").write_text("title = 5")
    store = PolicyStore(Settings(), Platforms(folder / "platforms"))
    assert decision(store, RELOAD) == "ask"
    with refused(ErrorCode.INVALID_ARGUMENT, "lab.toml"):
        store.verdict(DecisionRequest("reload", "lab"))


def test_edit_of_an_extended_file_is_noticed(folder: Path, load: Callable[..., PolicyStore]) -> None:
    (folder / "policy.toml").write_text('extends = ["base.toml"]')
    (folder / "base.toml").write_text(rule())
    store = load()
    (folder / "base.toml").write_text(rule(decision="warn"))
    store.refresh()
    assert decision(store, ROUTER) == "warn"


def test_edit_with_an_older_time_is_noticed(folder: Path, load: Callable[..., PolicyStore]) -> None:
    """The clock was set back, or a file was copied with its times."""
    (folder / "policy.toml").write_text(rule())
    store = load()
    (folder / "policy.toml").write_text(rule(decision="warn"))
    os.utime(folder / "policy.toml", (0, 0))
    store.refresh()
    assert decision(store, ROUTER) == "warn"


def test_new_policy_file_is_noticed(folder: Path, load: Callable[..., PolicyStore]) -> None:
    store = load()
    (folder / "policy.toml").write_text(rule())
    store.refresh()
    assert decision(store, ROUTER) == "deny"


def test_removed_policy_file_stays_in_force_until_a_reload(folder: Path, load: Callable[..., PolicyStore]) -> None:
    """An editor may remove a file before it writes the new one."""
    (folder / "policy.toml").write_text(rule())
    store = load()
    (folder / "policy.toml").unlink()
    store.refresh()
    assert decision(store, ROUTER) == "deny"
    assert "No such file" in (store.problem or "")
    store.reload()
    assert (store.name, store.problem, decision(store, ROUTER)) == ("guarded", None, "allow")


def test_unchanged_files_are_not_loaded_again(
    folder: Path, load: Callable[..., PolicyStore], rows: list[dict[str, Any]]
) -> None:
    (folder / "policy.toml").write_text("default = ")
    store = load()
    for _ in range(3):
        store.refresh()
    assert len(rows) == 1


def test_new_policy_has_judged_the_last_requests_before_it_is_in_force(
    folder: Path, load: Callable[..., PolicyStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first verdict finds the rules for its device and mode, which takes long with many rules."""
    store = load()
    decision(store, ROUTER)
    (folder / "policy.toml").write_text(rule())
    store.refresh()
    monkeypatch.setattr("ptyctl.policy.evaluate.Evaluator._find_scopes", None)
    assert decision(store, DecisionRequest("router ospf 1", "cisco_ios", mode="config")) == "deny"


def test_verdict_reads_no_file(folder: Path, load: Callable[..., PolicyStore], monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "policy.toml").write_text(rule())
    store = load()
    decision(store, ROUTER)
    monkeypatch.setattr(Path, "stat", None)
    monkeypatch.setattr(Path, "open", None)
    assert decision(store, DecisionRequest("router ospf 1", "cisco_ios", mode="config")) == "deny"


async def test_controller_notices_an_edit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "POLL_S", 0.01)
    async with LocalController(Settings()) as controller:
        assert decision(controller.policies, ROUTER) == "allow"
        (folder / "policy.toml").write_text(rule())
        async with asyncio.timeout(60):
            while decision(controller.policies, ROUTER) != "deny":  # noqa: ASYNC110 - a reload signals nobody
                await asyncio.sleep(0.01)


@pytest.fixture
async def controller(folder: Path) -> Any:
    async with LocalController(Settings()) as local:
        yield local


async def check(controller: Any, **fields: object) -> tuple[str | None, list[str] | None, str | None]:
    reply = await controller.policy(PolicyRequest.of({"action": "check", **fields}))
    return reply.decision, reply.rules, reply.mode


async def test_check_judges_in_the_mode_for_commands(controller: LocalController) -> None:
    assert await check(controller, text="rel in 5", platform="cisco_ios") == ("ask", ["reload"], "privileged")
    assert await check(controller, text="show version", platform="cisco_ios") == ("allow", [], "privileged")
    with refused(ErrorCode.INVALID_ARGUMENT, "cisco_ios has no mode 'confg'"):
        await check(controller, text="x", platform="cisco_ios", mode="confg")
    with refused(ErrorCode.UNSUPPORTED, "'cisco_ois' is not known"):
        await check(controller, text="x", platform="cisco_ois")


async def test_check_takes_the_platform_of_a_device_from_the_inventory(
    folder: Path, controller: LocalController, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "devices.toml").write_text('[devices.sw-1]\nprotocol = "ssh"\nhost = "192.0.2.1"\nplatform = "cisco_ios"\n')
    (folder / "policy.toml").write_text(
        '[[rules]]\nid = "r"\nwhen = { device = "sw-*", protocol = "ssh", kind = "agent", task = "night" }\n'
        'command = ["router"]\ndecision = "deny"\nreason = "no"\n'
    )
    monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(folder / "devices.toml"))
    async with LocalController(Settings()) as local:
        fields = {"text": "rou bgp 1", "device": "sw-1", "mode": "config"}
        assert await check(local, **fields, kind="agent", task_id="night") == ("deny", ["r"], "config")
        assert await check(local, **fields) == ("allow", [], "config")
        with refused(ErrorCode.NOT_FOUND, "no device 'sw-2'"):
            await check(local, text="x", device="sw-2")


async def test_check_of_a_session_judges_as_its_input_is_judged(folder: Path, controller: LocalController) -> None:
    (folder / "policy.toml").write_text(
        '[[rules]]\nid = "r"\nwhen = { device = "sw-*", platform = "linux" }\ncommand = ["router"]\n'
        'decision = "deny"\nreason = "no"\n'
    )
    await controller.policy(PolicyRequest(action="reload"))
    console = await SessionHandle.open(controller, protocol="local", command=BASH, session_type="console", device_id="sw-1")
    assert (await check(controller, text="router x", session_id=console.session_id))[:2] == ("deny", ["r"])
    assert (await controller.policy(PolicyRequest(action="check", text="x", session_id=console.session_id))).platform == "linux"


async def test_check_of_a_session_judges_where_its_input_goes_now(folder: Path, controller: LocalController) -> None:
    (folder / "policy.toml").write_text('extends = ["off"]\nprograms = "deny"\n')
    await controller.policy(PolicyRequest(action="reload"))

    async def judged(**fields: str) -> tuple[str | None, str | None]:
        reply = await controller.policy(PolicyRequest.of({"action": "check", "text": "x", **fields}))
        return reply.where, reply.decision

    assert await judged(where="program") == ("program", "deny")
    async with await SessionHandle.open(controller, protocol="local", command=BASH) as shell:
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        assert await judged(session_id=shell.session_id) == ("prompt", "allow")
        assert await judged(session_id=shell.session_id, where="program") == ("program", "deny")
        command = f"{sys.executable} -c 'print(\"begun\", flush=True); input()'"
        await write(shell, data=f"{command}\n", until_regex="(?m)^begun", timeout_ms=PATIENCE_MS)
        assert await judged(session_id=shell.session_id) == ("program", "deny")
        assert await judged(session_id=shell.session_id, where="prompt") == ("prompt", "allow")


async def test_show_lists_the_rules_with_their_places(folder: Path, controller: LocalController) -> None:
    (folder / "policy.toml").write_text('default = "ask"\n' + rule())
    reply = await controller.policy(PolicyRequest(action="reload"))
    assert reply == await controller.policy(PolicyRequest(action="show"))
    assert (reply.policy, reply.problem, reply.rules) == (str(folder / "policy.toml"), None, ["router"])
    assert reply.defaults == {"default": "ask", "programs": "allow", "unparsed": "ask", "unreadable": "ask"}
    (detail,) = reply.rule_details or ()
    assert (detail.source, detail.line, detail.definition) == (reply.policy, 2, {"command": [["router"]]})
    rows = (await controller.audit(AuditRequest(event="policy"))).rows
    assert all(row["result"] == "loaded" for row in rows)


async def test_show_without_a_policy_reports_the_problem(folder: Path) -> None:
    (folder / "policy.toml").write_text("default = ")
    async with LocalController(Settings()) as controller:
        reply = await controller.policy(PolicyRequest(action="show"))
        assert (reply.rules, reply.sha256) == (None, None)
        assert "not valid TOML" in (reply.problem or "")
        with refused(ErrorCode.POLICY_DENIED, "not valid TOML"):
            await check(controller, text="ls", platform="linux")


async def test_viewer_may_check_and_show_but_not_reload(controller: LocalController) -> None:
    access = AccessController(controller)
    with serving(Client(Principal("eve", Kind.PERSON, Role.VIEWER, ("sw-*",)))):
        assert (await check(access, text="reload", platform="cisco_ios"))[0] == "ask"
        assert (await access.policy(PolicyRequest(action="show"))).rules
        with refused(ErrorCode.FORBIDDEN, "may not load the policy again"):
            await access.policy(PolicyRequest(action="reload"))
        with refused(ErrorCode.NOT_FOUND, "no device 'core-1'"):
            await check(access, text="reload", device="core-1", platform="cisco_ios")
        with refused(ErrorCode.NOT_FOUND, "there is no session"):
            await check(access, text="reload", session_id="20260101-000000-00000000")


@pytest.mark.parametrize(
    "fields",
    [{"action": "check"}, {"action": "show", "text": "x"}, {"action": "check", "text": "x", "session_id": "a", "device": "b"}],
)
def test_fields_of_another_action_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(PtyctlError) as caught:
        PolicyRequest.of(fields)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
