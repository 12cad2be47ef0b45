"""Verdicts: how rules match, and what never changes a verdict from ask or deny to allow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.policy.rules import Decision, DecisionRequest, Rule, Verdict, strictest

from .presets import PLATFORMS, load_text, preset


def policy(*rules: str, default: str = "allow", **settings: str) -> str:
    """A policy of rules in the form `id decision: fields`."""
    lines = [f'default = "{default}"', *(f'{name} = "{value}"' for name, value in settings.items())]
    for rule in rules:
        head, _, fields = rule.partition(": ")
        rule_id, decision = head.split()
        lines.append(f'[[rules]]\nid = "{rule_id}"\ndecision = "{decision}"\nreason = "because of {rule_id}"\n{fields}')
    return "\n".join(lines)


def judge(text: str, rules: str, platform: str = "cisco_ios", mode: str | None = "privileged", **fields: str) -> Verdict:
    return load_text(rules).evaluator.verdict(DecisionRequest(text, platform, mode=mode, **fields))


def decision(text: str, rules: str, platform: str = "cisco_ios", mode: str | None = "privileged", **fields: str) -> str:
    return str(judge(text, rules, platform, mode, **fields).decision)


def test_strictest_returns_the_strictest_decision_or_allow() -> None:
    assert [strictest([each, Decision.WARN]) for each in Decision] == ["warn", "warn", "ask", "deny"]
    assert strictest([]) is Decision.ALLOW


def test_strictest_of_all_matching_rules_counts_in_any_order() -> None:
    rules = ['a allow: command = ["reload"]', 'b deny: regex = "load"', 'c ask: command = ["*"]', 'd warn: command = ["rel*"]']
    for order in (rules, rules[::-1]):
        verdict = judge("reload", policy(*order))
        assert (verdict.decision, set(verdict.rules), verdict.reason) == (Decision.DENY, set("abcd"), "because of b")


def test_default_counts_if_no_rule_matches() -> None:
    for default in ("allow", "ask", "deny"):
        verdict = judge("show version", policy(default=default))
        assert (str(verdict.decision), verdict.rules) == (default, ())
    assert judge("", policy(default="deny")).decision is Decision.ALLOW


def test_regex_that_allows_must_match_the_whole_command() -> None:
    rules = policy("a allow: regex = 'show (?:version|clock)'", default="deny")
    assert decision("show version", rules) == "allow"
    assert decision("show version x", rules) == decision("do show version", rules) == "deny"


def test_regex_that_allows_must_match_each_line_of_program_input() -> None:
    rules = policy("a allow: regex = '^(?:q|/[a-z]+)$'", "b ask: regex = '^!'", programs="deny")
    for text, expected in {
        "q": "allow",
        "/x": "allow",
        "/x\nq": "allow",
        "q\nx y": "deny",
        "x y\nq": "deny",
        "q\rx y": "deny",
        "q\r\nx y": "deny",
        "q\n": "deny",
        "!x": "ask",
        "!x\nq": "ask",
        "!x\ny z": "deny",
    }.items():
        assert decision(text, rules, "linux", None, where="program") == expected, text


@given(st.text("qab \n\r'", max_size=12))
def test_program_input_is_allowed_only_if_each_line_is(text: str) -> None:
    rules = policy("a allow: regex = '^(?:q|a b)$'", programs="deny")
    is_allowed = all(line in ("q", "a b") for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    assert (decision(text, rules, "linux", None, where="program") == "allow") is is_allowed


def test_default_counts_where_only_warnings_match() -> None:
    rules = policy('w warn: command = ["show"]', 'a allow: command = ["show", "version"]', default="deny")
    assert (decision("show clock", rules), decision("show version", rules)) == ("deny", "warn")


def test_default_counts_for_each_command_of_a_text() -> None:
    rules = policy('a ask: command = ["reload"]', default="deny")
    assert decision("reload", rules) == "ask"
    assert decision("reload\nshow version", rules) == "deny"
    assert (
        decision("show version\nreload", policy('a ask: command = ["reload"]', 'b allow: command = ["show"]', default="deny"))
        == "ask"
    )


@pytest.mark.parametrize(
    ("fields", "text", "expected"),
    [
        ('command = ["write", "erase"]', "write", "allow"),
        ('command = ["write", "erase"]', "write erase now", "ask"),
        ('command = ["write", "erase"]', "w e", "ask"),
        ('command = ["write", "erase"]', "writer erase", "allow"),
        ('command = ["copy", ["running-config", "flash:*"]]', "copy flash:x y", "ask"),
        ('command = ["copy", ["running-config", "flash:*"]]', "copy fl y", "ask"),
        ('command = ["copy", ["running-config", "flash:*"]]', "copy tftp: y", "allow"),
        ('command = ["copy", "*", "startup-config"]', "copy x star", "ask"),
        ('command = ["copy", "**", "startup-config"]', "copy startup", "ask"),
        ('command = ["copy", "**", "startup-config"]', "copy a b c star d", "ask"),
        ('command = ["copy", "**", "startup-config"]', "copy a b", "allow"),
        ('command = ["router"]', "no router bgp 1", "ask"),
        ('command = ["router"]', "default rou bgp 1", "ask"),
        ('command = ["router"]', "do no router bgp 1", "ask"),
        ('command = ["router"]\nnegated = false', "no router bgp 1", "allow"),
        ('command = ["no", "router"]', "no router bgp 1", "ask"),
        ('command = ["no", "router"]', "router bgp 1", "allow"),
        ('command = ["|", "redirect"]', "show run | redi flash:x", "ask"),
        ('command = ["|", "redirect"]', "show run | include redirect", "allow"),
        ('command = ["ROUTER"]', "Router", "ask"),
        ("regex = '^show run$'", "show  RUN", "ask"),
        ("regex = '^interface Vlan1$'", "interface Vlan1", "ask"),
        ("regex = '^b$'", "a\nb\nc", "ask"),
        ("regex = '^a b$'", "a\nb", "allow"),
        ('command = ["reload"]', 're"load"', "ask"),
        ('command = ["write", "erase"]', 'wr"i"te \\erase', "ask"),
        ('command = ["write", "erase"]', 'show \\erase', "allow"),
    ],
)  # fmt: skip
def test_rule_that_asks_matches_abbreviations_negations_and_unknown_words(fields: str, text: str, expected: str) -> None:
    assert decision(text, policy(f"a ask: {fields}"), mode="config") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("show version", "allow"),
        ("sh ver", "allow"),
        ("s", "deny"),
        ("se x", "deny"),
        ("shu", "deny"),
        ('sh"ow" version', "deny"),
        ("show 'a", "allow"),
        ("show version | include x", "allow"),
        ("show version | in x", "allow"),
        ("show version | redirect x", "deny"),
        ("show version\nshow clock", "allow"),
        ("no show version", "deny"),
        ("do show version", "allow"),
        ("d show version", "deny"),
    ],
)
def test_rule_that_allows_needs_words_that_mean_nothing_else(text: str, expected: str) -> None:
    rules = policy(
        'show allow: command = ["show"]',
        'include allow: command = ["|", "include"]',
        'set deny: command = ["set", "x"]',
        default="deny",
    )
    assert decision(text, rules) == expected


def test_rule_with_a_mode_matches_an_unknown_mode_unless_it_allows() -> None:
    strict = policy('a ask: command = ["x"]\nwhen = { mode = "config" }')
    found = {mode: decision("x", strict, mode=mode) for mode in ("config", "privileged", None)}
    assert found == {"config": "ask", "privileged": "allow", None: "ask"}
    allowing = policy('a allow: command = ["x"]\nwhen = { mode = "config" }', default="deny")
    found = {mode: decision("x", allowing, mode=mode) for mode in ("config", "privileged", None)}
    assert found == {"config": "allow", "privileged": "deny", None: "deny"}


def test_mode_after_the_first_command_is_not_known() -> None:
    rules = policy('a ask: command = ["shutdown"]\nwhen = { mode = "config" }')
    assert decision("shutdown", rules) == "allow"
    assert decision("configure terminal\nshutdown", rules) == "ask"
    assert decision("show version | include x", policy("a ask: regex = 'x'\nwhen = { mode = 'config' }")) == "allow"
    assert decision("a\nx", policy("a ask: regex = 'x'\nwhen = { mode = 'config' }")) == "ask"


def test_rule_matches_only_if_all_keys_of_when_match() -> None:
    rules = policy('a ask: command = ["x"]\nwhen = { device = "core-*", kind = ["agent"], principal = "*/mcp", task = "n*" }')
    known = {"device": "core-1", "kind": "agent", "principal": "bob/mcp", "task": "n1"}
    assert decision("x", rules, **known) == "ask"
    for key in known:
        assert decision("x", rules, **(known | {key: "y"})) == "allow"


def test_program_is_judged_by_regexes_and_its_default() -> None:
    rules = policy('a deny: regex = "secret"', 'b deny: command = ["x"]', default="deny", programs="ask")
    assert (decision("x", rules, where="program"), decision("a secret", rules, where="program")) == ("ask", "deny")
    allowing = policy('a allow: regex = "^q$"\nwhen = { where = "program" }', default="deny", programs="deny")
    assert (decision("q", allowing, where="program"), decision("q", allowing)) == ("allow", "deny")


def test_text_with_control_characters_gets_the_strictest_decision() -> None:
    assert decision("show \x15reload", policy(unreadable="ask")) == "ask"
    assert decision("show \x15reload", policy('a deny: command = ["reload"]', unreadable="ask")) == "deny"
    assert decision("show \x15reload", policy('a allow: command = ["show"]', unreadable="allow")) == "allow"
    assert (
        decision("show \x15reload", policy('a deny: command = ["x"]\nwhen = { platform = "frr" }', unreadable="warn")) == "warn"
    )


def test_platform_that_is_not_known_is_judged_as_generic() -> None:
    rules = policy('a ask: command = ["x"]\nwhen = { platform = "generic" }')
    assert [decision("x", rules, platform) for platform in ("generic", "no_such", "cisco_ios")] == ["ask", "ask", "allow"]
    assert load_text(rules).evaluator.verdict(DecisionRequest("x")).decision is Decision.ASK


def test_shell_of_a_device_is_judged_by_rules_for_shells() -> None:
    rules = policy(
        'a ask: command = ["rm"]\nwhen = { platform = "linux" }',
        'b deny: command = ["reload"]\nwhen = { platform = "arista_eos", mode = "bash" }',
        'c allow: command = ["show"]\nwhen = { platform = "arista_eos" }',
        'd allow: command = ["ls"]\nwhen = { platform = "linux" }',
        default="ask",
    )
    found = {text: decision(text, rules, "arista_eos", "bash") for text in ("rm x", "reload", "show", "ls")}
    assert found == {"rm x": "ask", "reload": "deny", "show": "ask", "ls": "allow"}
    assert decision("bash rm x", policy('a deny: command = ["rm"]\nwhen = { platform = "linux" }'), "arista_eos") == "deny"


def test_lines_after_a_command_that_may_open_a_shell_are_judged_as_shell_commands() -> None:
    rules = policy('a ask: command = ["rm", "-x"]\nwhen = { platform = "linux" }', 'b deny: command = ["show", "clock"]')
    assert decision("rm y -x", rules, "arista_eos") == "allow"
    assert decision("rm y -x", rules, "arista_eos", None) == "ask"
    assert decision("show x\nrm y -x", rules, "arista_eos") == "allow"
    assert decision("bash\nls", rules, "arista_eos") == "allow"
    assert decision("show clock\nbash", rules, "arista_eos") == "deny"


def test_text_that_a_shell_cannot_parse_gets_the_decision_for_it() -> None:
    for unparsed in ("allow", "warn", "ask", "deny"):
        assert decision("echo 'x", policy(unparsed=unparsed), "linux", "user") == unparsed
    assert decision("echo 'x", policy(unparsed="deny"), "generic", "cli") == "allow"


def test_rule_matches_its_last_words_alone_where_a_device_has_contexts() -> None:
    rules = policy('a ask: command = ["system", "reboot"]')
    found = [decision(text, rules, "mikrotik_routeros", "cli") for text in ("/system reboot", "reboot", "system", "reb")]
    assert found == ["ask", "ask", "allow", "ask"]
    assert decision("reboot", rules, "cisco_ios") == "allow"


#: Rules of `guarded` that ask for a command of words, with the platforms they are for; without globs, and not in one mode.
ASKING = [
    (name, rule)
    for placed in preset("guarded").rules
    for rule in [placed.rule]
    if rule.command is not None and rule.decision is Decision.ASK and rule.when.mode is None
    for name in (rule.when.platform or ())
    if name in PLATFORMS and not PLATFORMS[name].posix_shell and not PLATFORMS[name].command_line.may_be_shell
    if not any("*" in word for alternatives in rule.command for word in alternatives)
]


@st.composite
def asked_commands(draw: st.DrawFn) -> tuple[str, Rule, str]:
    """A platform, a rule that asks, and a command that it means: abbreviated, in random case, with random blanks."""
    platform, rule = draw(st.sampled_from(ASKING))
    words = []
    for alternatives in rule.command or ():
        word = draw(st.sampled_from(alternatives))
        word = word[: draw(st.integers(1, len(word)))]
        words.append("".join(draw(st.sampled_from((letter.lower(), letter.upper()))) for letter in word))
    return platform, rule, draw(st.sampled_from((" ", "  "))).join(words)


@given(asked_commands(), st.data())
def test_no_form_of_a_command_that_is_asked_for_passes(command: tuple[str, Rule, str], data: st.DataObject) -> None:
    platform, rule, text = command
    grammar = PLATFORMS[platform].command_line
    before = [f"show version{separator}" for separator in (*grammar.separators, "\n", "\r\n") if separator not in "[](){}"]
    prefixes = [f"{prefix.replace('*', 'x')} " for prefix in grammar.exec_prefixes]
    text = data.draw(st.sampled_from(["", " ", *prefixes, *before])) + text
    text += data.draw(st.sampled_from(["", " ", " x", " ?", "\r", "\n"]))
    mode = data.draw(st.sampled_from([None, *(name for name, mode in PLATFORMS[platform].modes.items() if not mode.shell)]))
    verdict = preset("guarded").evaluator.verdict(DecisionRequest(text, platform, mode=mode))
    assert rule.id in verdict.rules
    assert verdict.decision is Decision.ASK
    assert preset("readonly").evaluator.verdict(DecisionRequest(text, platform, mode=mode)).decision is not Decision.ALLOW


@given(asked_commands(), st.data())
def test_no_character_inserted_into_a_command_makes_it_pass_readonly(
    command: tuple[str, Rule, str], data: st.DataObject
) -> None:
    platform, _, text = command
    place = data.draw(st.integers(0, len(text)))
    text = (
        text[:place]
        + data.draw(st.sampled_from(['"', "'", "\\", "\x16", "\0", "\x08", "\x7f", "?", "\t", "^", ";", "é"]))
        + text[place:]
    )
    mode = PLATFORMS[platform].home[0]
    verdict = preset("readonly").evaluator.verdict(DecisionRequest(text, platform, mode=mode))
    assert verdict.decision is Decision.DENY or not verdict.canonical, verdict


@given(
    st.text(), st.sampled_from(sorted(set(PLATFORMS) - {"linux", "generic", "vyos"})), st.sampled_from(["guarded", "readonly"])
)
def test_any_text_gets_a_verdict(text: str, platform: str, name: str) -> None:
    mode = PLATFORMS[platform].home[0]
    verdict = preset(name).evaluator.verdict(DecisionRequest(text, platform, mode=mode))
    assert verdict.reason
    assert verdict == preset(name).evaluator.verdict(DecisionRequest(text, platform, mode=mode))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("for f in *; do", "allow"),
        ("do reboot", "ask"),
        ("else rm -rf /", "ask"),
        ("done; reboot", "ask"),
        ("cat <<EOF", "allow"),
        ("it's a line of a here-document", "allow"),
        ("systemctl stop sshd |", "warn"),
    ],
)
def test_part_of_a_text_is_judged_by_rules_alone(line: str, expected: str) -> None:
    request = DecisionRequest(line, "linux", mode="user")
    assert preset("guarded").evaluator.verdict_by_rules(request).decision == expected


def test_command_of_several_lines_is_judged_as_a_whole() -> None:
    evaluator = preset("guarded").evaluator
    texts = ["for f in a; do\nreboot\ndone", "bash <<EOF\nreboot\nEOF", 'echo "\n"; reboot', "rm -rf \\\n/"]
    assert {str(evaluator.verdict(DecisionRequest(text, "linux", mode="user")).decision) for text in texts} == {"ask"}
    harmless = "cat > x <<EOF\nreboot\nEOF"
    assert evaluator.verdict(DecisionRequest(harmless, "linux", mode="user")).decision is Decision.ALLOW


def test_verdict_by_rules_has_no_default_and_no_decision_for_unreadable_text() -> None:
    rules = policy('a ask: command = ["reload"]', 'b warn: regex = "x"', default="deny", unreadable="deny", programs="deny")
    evaluator = load_text(rules).evaluator
    for text, where, expected in [
        ("show version", "prompt", "allow"),
        ("reload", "prompt", "ask"),
        ("a x", "program", "warn"),
        ("a", "program", "allow"),
        ("re\x16load", "prompt", "ask"),
    ]:
        request = DecisionRequest(text, "cisco_ios", mode="privileged", where=where)
        assert evaluator.verdict_by_rules(request).decision == expected
