"""Loading of policy files: extending, settings, and files that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.policy.evaluate import PolicySettings
from ptyctl.policy.rules import Decision, DecisionRequest

from .presets import PLATFORMS, load_file, load_text

ROUTER = """\
# routing
extends = []
default = "allow"

[[rules]]
id = "router"
when = { platform = ["cisco_*", "arista_eos"], device = "core-*", mode = "config*", kind = "agent" }
command = ["router"]
decision = "ask"
reason = "routing changes need a second person"
matches = ["router bgp 65000", "rou os 1", "no router bgp 1"]
passes = ["show running-config | section router"]
"""


def rule(fields: str, rule_id: str = "r1") -> str:
    return f'[[rules]]\nid = "{rule_id}"\ndecision = "ask"\nreason = "why"\n{fields}\n'


def test_example_of_the_documentation_loads_and_decides() -> None:
    evaluator = load_text(ROUTER).evaluator
    request = DecisionRequest("rou bgp 1", "cisco_ios", device="core-1", mode="config", kind="agent")
    verdict = evaluator.verdict(request)
    assert (verdict.decision, verdict.rules, verdict.mode) == (Decision.ASK, ("router",), "config")
    assert (verdict.reason, verdict.canonical) == ("routing changes need a second person", "rou bgp 1")
    person = DecisionRequest("rou bgp 1", "cisco_ios", device="core-1", mode="config", kind="person")
    assert evaluator.verdict(person).decision is Decision.ALLOW


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default = ", r"policy.toml: not valid TOML: Invalid value"),
        ("default = allow\n", r"policy.toml: not valid TOML: .*line 1"),
        ('defualt = "allow"', r"policy.toml:1: defualt: unknown field"),
        ('\n\ndefault = "warn"', r"policy.toml:3: default: Input should be 'allow', 'ask' or 'deny'"),
        ('unparsed = "off"', r"policy.toml:1: unparsed: Input should be"),
        (rule('comand = ["x"]'), r"policy.toml:1: rule 'r1': comand: unknown field"),
        (ROUTER + rule('regex = "x"\nwhen = { plaform = "x" }'), r"policy.toml:13: rule 'r1': when.plaform: unknown field"),
        (rule(""), r"policy.toml:1: rule 'r1': needs command or regex, and not both"),
        (rule('command = ["x"]\nregex = "x"'), r"rule 'r1': needs command or regex, and not both"),
        (rule("command = []"), r"rule 'r1': command: should not be empty"),
        (rule("command = [[]]"), r"rule 'r1': command\[0\]: should not be empty"),
        (rule('command = ["write erase"]'), r"'write erase' is not one word"),
        (rule('command = ["**"]'), r"needs a word other than"),
        (rule('command = ["a", "**", "b", "**"]'), r"may be in it once"),
        (rule('command = ["**", "b"]').replace('"ask"', '"allow"'), r"is for rules that do not allow"),
        (rule('command = [["**", "x"]]'), r"has no alternatives"),
        (rule("regex = '(?=x)'"), r"policy.toml:1: rule 'r1': regex: .*RE2 has no lookahead"),
        (rule("regex = '('"), r"rule 'r1': regex: .*is not a valid pattern"),
        (rule('command = ["x"]') * 2, r"policy.toml:6: rule 'r1': the id is also that of the rule at policy.toml:1"),
        ('[[rules]]\ncommand = ["x"]\ndecision = "ask"\nreason = "w"', r"toml:1: rule number 1 \(without an id\): id: Field"),
        (rule('command = ["x"]').replace('"ask"', '"forbid"'), r"rule 'r1': decision: Input should be"),
        (rule('command = ["x"]').replace('"why"', '""'), r"rule 'r1': reason: String should have at least 1"),
        (rule('command = ["x"]', rule_id="r 1"), r"rule 'r 1': id: String should match"),
        (rule('command = ["x"]\nwhen = { where = "program" }'), r"command is for prompts"),
        (rule('command = ["x"]\nwhen = { platform = "cisco_ois" }'), r"no platform is named 'cisco_ois'"),
        (rule('command = ["x"]\nwhen = { platform = "frr", mode = "conf" }'), r"no mode of these platforms is named 'conf'"),
        (rule('command = ["x"]\nwhen = { kind = "robot" }'), r"no kind of principal is named 'robot'"),
        (rule('command = ["x"]\nwhen = { where = "shell" }'), r"no place is named 'shell'|command is for prompts"),
        (rule('command = ["reload"]\nmatches = ["relaod"]'), r"toml:1: rule 'r1': the example 'relaod' in matches does not"),
        (rule('command = ["reload"]\npasses = ["rel"]'), r"the example 'rel' in passes matches on generic in mode cli"),
        ("rules = [\n{ id = 'a', regex = 'x', decision = 'ask', reason = 'w', matches = ['y'] }]", r"toml:2: rule 'a': the"),
        ("a = " + "[" * 20_000, r"policy.toml: not valid TOML: "),
        ("rules = 5", r"policy.toml:1: rules: Input should be an array"),
        ('extends = "guarded"', r"policy.toml:1: extends: Input should be an array"),
    ],
)  # fmt: skip
def test_faulty_file_is_refused_with_line_and_rule(text: str, message: str) -> None:
    with pytest.raises(PtyctlError, match=message) as refused:
        load_text(text)
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    assert refused.value.hint
    assert not refused.value.retryable


def test_cycle_in_extends_is_refused() -> None:
    files = {"b.toml": 'extends = ["policy.toml"]'}
    with pytest.raises(PtyctlError, match=r"b.toml: extends leads back to itself: policy.toml -> b.toml -> policy.toml"):
        load_text('extends = ["guarded", "b.toml"]', files)
    with pytest.raises(PtyctlError, match=r"policy.toml -> policy.toml"):
        load_text('extends = ["policy.toml"]')


def test_file_that_two_others_extend_is_loaded_once() -> None:
    base = rule('command = ["x"]')
    files = {"base.toml": base, "a.toml": 'extends = ["base.toml"]', "b.toml": 'extends = ["base.toml"]'}
    policy = load_text('extends = ["a.toml", "b.toml"]', files)
    assert [(placed.rule.id, placed.place) for placed in policy.rules] == [("r1", "base.toml:1")]


def test_fault_in_extended_file_names_that_file() -> None:
    with pytest.raises(PtyctlError, match=r"base.toml:1: rule 'r1': needs command"):
        load_text('extends = ["base.toml"]', {"base.toml": rule("")})


def test_same_id_in_two_files_is_refused() -> None:
    with pytest.raises(PtyctlError, match=r"policy.toml:2: rule 'reload': the id is also that of the rule at guarded:\d+"):
        load_text('extends = ["guarded"]\n' + rule('command = ["x"]', rule_id="reload"))


def test_settings_are_the_strictest_extended_or_the_files_own() -> None:
    assert load_text("").settings == PolicySettings()
    assert load_text('extends = ["off", "readonly", "guarded"]').settings == load_text('extends = ["readonly"]').settings
    own = load_text('extends = ["readonly"]\ndefault = "allow"\nunreadable = "warn"').settings
    assert (own.default, own.programs, own.unreadable) == (Decision.ALLOW, Decision.DENY, Decision.WARN)


def test_relative_paths_begin_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = ["team/base.toml"]')
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "base.toml").write_text(rule('command = ["x"]'))
    assert [placed.rule.id for placed in load_file(tmp_path / "mine.toml").rules] == ["r1"]


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "mine.toml").write_bytes(content)
    with pytest.raises(PtyctlError, match=r"mine\.toml") as refused:
        load_file(tmp_path / "mine.toml")
    assert refused.value.hint


def test_rule_for_a_mode_is_checked_on_each_platform_that_has_it() -> None:
    text = rule('command = ["router"]\nwhen = { mode = "config" }\nmatches = ["router x"]\npasses = ["show router"]')
    assert len(load_text(text).rules) == 1
    assert sum("config" in platform.modes for platform in PLATFORMS.values()) > 5
