"""The presets: their examples, usual commands, defaults, and the table for the documentation."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ptyctl.policy.evaluate import PolicySettings
from ptyctl.policy.policy_file import PRESETS, run_examples
from ptyctl.policy.rules import OTHER_SHELL, Decision, DecisionRequest
from ptyctl.policy.shell_command import canonical_shell
from tests.policy.preset_tables import allowed_examples, render_table

from .presets import PLATFORMS, load_text, no_file, preset

TASKS = tomllib.loads((Path(__file__).parent / "tasks.toml").read_text())
SHELL_TEXTS = tomllib.loads((Path(__file__).parent / "corpus_shell.toml").read_text())


#: Among the configuration commands, those that only show or leave a mode.
SHOWING = ("show | compare", "compare", "run show interfaces", "info", "exit all", "exit")


def decisions(policy: str, platform: str, kind: str) -> dict[str, str]:
    """The decisions of a preset for the usual commands of a platform."""
    table = TASKS[platform]
    mode = table[f"{kind}_mode"]
    evaluator = preset(policy).evaluator
    return {text: str(evaluator.verdict(DecisionRequest(text, platform, mode=mode)).decision) for text in table[kind]}


@pytest.mark.parametrize("name", PRESETS)
def test_examples_of_a_preset_match_or_pass_its_rules(name: str) -> None:
    number, failing = run_examples(name, read=no_file, platforms=PLATFORMS, read_shell=canonical_shell)
    assert failing == []
    assert (number > 0) is (name != "off")


@pytest.mark.parametrize("name", ["guarded", "readonly"])
def test_preset_rules_have_examples_of_both_kinds(name: str) -> None:
    assert [placed.place for placed in preset(name).rules if not (placed.rule.matches and placed.rule.passes)] == []


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("off", PolicySettings(Decision.ALLOW, Decision.ALLOW, Decision.ALLOW, Decision.ALLOW)),
        ("guarded", PolicySettings(Decision.ALLOW, Decision.ALLOW, Decision.WARN, Decision.ASK)),
        ("readonly", PolicySettings(Decision.DENY, Decision.DENY, Decision.ASK, Decision.DENY)),
    ],
)
def test_preset_has_its_documented_settings(name: str, settings: PolicySettings) -> None:
    assert preset(name).settings == settings


def test_tasks_cover_every_platform_with_ten_of_each_kind() -> None:
    assert set(TASKS) == set(PLATFORMS)
    assert all(len(table["show"]) >= 10 <= len(table["config"]) for table in TASKS.values())


@pytest.mark.parametrize("platform", TASKS)
def test_usual_commands_need_no_approval_with_guarded(platform: str) -> None:
    found = decisions("guarded", platform, "show") | decisions("guarded", platform, "config")
    assert {text: decision for text, decision in found.items() if decision != "allow"} == {}


@pytest.mark.parametrize("platform", TASKS)
def test_usual_show_commands_pass_readonly(platform: str) -> None:
    found = decisions("readonly", platform, "show")
    assert {text: decision for text, decision in found.items() if decision != "allow"} == {}


@pytest.mark.parametrize("platform", TASKS)
def test_usual_configuration_commands_are_denied_by_readonly(platform: str) -> None:
    found = decisions("readonly", platform, "config")
    assert {text: decision for text, decision in found.items() if decision != "deny" and text not in SHOWING} == {}


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        (text, decision)
        for decision, name in (("ask", "unknown_asks"), ("warn", "unknown_warns"), ("allow", "unknown_passes"))
        for text in SHELL_TEXTS[name]
    ],
)
def test_unknown_word_of_a_shell_is_empty_or_ordinary_with_guarded(text: str, decision: str) -> None:
    assert preset("guarded").evaluator.verdict(DecisionRequest(text, "linux")).decision == decision


@pytest.mark.parametrize("text", SHELL_TEXTS["unknown_asks"] + SHELL_TEXTS["unknown_warns"])
def test_unknown_word_of_a_shell_matches_all_rules_of_a_policy_that_asks_for_unparsed_text(text: str) -> None:
    policy = load_text('extends = ["guarded"]\nunparsed = "ask"', read_shell=canonical_shell)
    assert policy.evaluator.verdict(DecisionRequest(text, "linux")).decision == "ask"


@pytest.mark.parametrize(
    "text",
    [
        "touch M $'\\nenv'",
        "touch M $'\\nenv\\n'",
        "touch M '\nuptime\ndate'",
        "ip addr show $'\\ndate' x",
        "touch M\nenv",
        "env 2>&1 touch M",
        "sudo 2>/dev/null touch M",
        "mkdir 2>/dev/null -p M",
        "sort 2>&1 -o M x",
        "env >&2 sh",
        "sort <<X -o M\na\nX",
        "env <<X touch M\na\nX",
        "date >/dev/null -s now",
        "date +%s$x",
        "ip 2>&1 link set eth0 down",
        "ls && env 2>/dev/null touch M",
    ],
)
def test_readonly_denies_command_with_more_than_an_allowed_one(text: str) -> None:
    assert preset("readonly").evaluator.verdict(DecisionRequest(text, "linux")).decision is Decision.DENY


@pytest.mark.parametrize("text", ["ls 2>/dev/null -l", "env 2>&1", "sort 2>&1 -n", "cat <<X -n\na\nX", "date -u 2>/dev/null"])
def test_readonly_allows_show_command_with_redirection_in_the_middle(text: str) -> None:
    assert preset("readonly").evaluator.verdict(DecisionRequest(text, "linux")).decision is Decision.ALLOW


@pytest.mark.parametrize(
    "text",
    [
        "echo '\\' '; rm -rf / #'",
        "printf '%s\n' '\\\\' '; rm -rf / #'",
        "\\x72m -rf /",
        "\\162m -rf /",
        "\\u0072m -rf /",
        "rm -rf (echo /)",
        "begin rm -rf /; end",
        "cat <<'X'\nrm -rf /\nX",
        "echo `'; rm -rf / #'`",
        "x 2>| rm -rf /",
        "echo ${x:-'\n}; rm -rf /\n'}",
        "echo $'\\'; rm -rf / #'",
    ],
)
def test_text_that_fish_reads_otherwise_than_bash_is_judged_by_words_anywhere(text: str) -> None:
    found = {
        name: preset(name).evaluator.verdict(DecisionRequest(text, "linux", shell="fish")) for name in ("guarded", "readonly")
    }
    assert {name: verdict.decision for name, verdict in found.items()} == {"guarded": Decision.ASK, "readonly": Decision.DENY}


@pytest.mark.parametrize(
    "text",
    [
        "ls (pwd)",
        "echo it\\'s",
        "set x (date)",
        "grep '\\d' x; and ls",
        "printf '%s\\n' x",
        "ls # all",
        *TASKS["linux"]["show"],
    ],
)
def test_usual_command_in_fish_needs_no_approval_with_guarded(text: str) -> None:
    assert preset("guarded").evaluator.verdict(DecisionRequest(text, "linux", shell="fish")).decision is Decision.ALLOW


def test_readonly_allows_no_show_command_in_an_unknown_mode() -> None:
    verdict = preset("readonly").evaluator.verdict(DecisionRequest("show version", "cisco_ios"))
    assert (verdict.decision, verdict.rules) == (Decision.DENY, ())


def test_table_has_a_row_with_commands_for_every_platform() -> None:
    rules = [placed.rule for placed in preset("readonly").rules]
    table = render_table(rules, PLATFORMS)
    rows = table.splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(PLATFORMS)
    assert all(row.count("`") >= 2 + 2 * 10 for row in rows if "generic" not in row), table
    assert "show version" in allowed_examples(rules, "cisco_ios")
    assert "\\|" in render_table(rules, {"juniper_junos": PLATFORMS["juniper_junos"]})


@pytest.mark.parametrize("platform", sorted(PLATFORMS))
def test_commands_of_the_table_pass_readonly(platform: str) -> None:
    mode = TASKS[platform]["show_mode"]
    for text in allowed_examples((placed.rule for placed in preset("readonly").rules), platform):
        verdict = preset("readonly").evaluator.verdict(DecisionRequest(text, platform, mode=mode))
        assert verdict.decision is Decision.ALLOW, verdict


@pytest.mark.parametrize(
    "text",
    [
        "foreach x (a b) rm -rf / ; end",
        "if (1) rm -rf /",
        "for x in [1] { rm -rf / }",
        "try { rm -rf / } catch { }",
        "rm -rf / | ?{ $_ }",
    ],
)
def test_text_for_a_shell_of_unknown_grammar_is_judged_by_words_anywhere(text: str) -> None:
    request = DecisionRequest(text, "linux", shell=OTHER_SHELL)
    found = {name: preset(name).evaluator.verdict(request).decision for name in ("guarded", "readonly")}
    assert found == {"guarded": Decision.ASK, "readonly": Decision.DENY}
    harmless = preset("readonly").evaluator.verdict(DecisionRequest("ls -l", "linux", shell=OTHER_SHELL))
    assert harmless.decision is not Decision.ALLOW


@pytest.mark.parametrize(
    "text",
    [
        "for x in a do rm -rf / ; }",
        "if [ x ] rm -rf / fi",
        "case x in rm -rf / esac",
        "while do; done rm -rf /; )",
        "bash -c 'for x in a do rm -rf / ; }'",
    ],
)
def test_text_with_a_syntax_error_is_judged_by_words_anywhere(text: str) -> None:
    found = {name: preset(name).evaluator.verdict(DecisionRequest(text, "linux")).decision for name in ("guarded", "readonly")}
    assert found == {"guarded": Decision.ASK, "readonly": Decision.DENY}
