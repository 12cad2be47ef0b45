"""The documentation's tables of what the presets decide, from their rules and examples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ptyctl.platforms import Platform
from ptyctl.policy.rules import Decision, Rule, glob_matches

#: Rules whose examples are commands that show, by the end of their ids.
_SHOWING = ("-show", "-probe", "-configuration", "-diagnose")
#: The title of a group of rules, a comment in the preset; or the id of a rule.
_TITLE_OR_ID = re.compile(r'^# (.+)\n\n(?=\[\[rules)|^id = "(.+)"$', re.M)
#: Examples of a rule in the table.
_EXAMPLES = 3


def allowed_examples(rules: Iterable[Rule], platform: str) -> tuple[str, ...]:
    """Return the examples of the rules that allow commands that show on a platform."""
    return tuple(
        example
        for rule in rules
        if rule.decision is Decision.ALLOW and rule.id.endswith(_SHOWING)
        if glob_matches(rule.when.platform or ("*",), platform)
        for example in rule.matches
    )


def render_table(rules: Iterable[Rule], platforms: Mapping[str, Platform]) -> str:
    """Return a Markdown table with a row for each platform: its name and the commands that show."""
    known = tuple(rules)
    rows = ["| family | commands that pass |", "|---|---|"]
    for name in platforms:
        rows.append(f"| `{name}` | {_codes(allowed_examples(known, name))} |")
    return "\n".join(rows) + "\n"


def render_groups(preset: str, rules: Iterable[Rule]) -> str:
    """Return a Markdown table of the rules for each group of a preset, whose text has the titles of the groups."""
    by_id = {rule.id: rule for rule in rules}
    parts: list[str] = []
    for title, rule_id in _TITLE_OR_ID.findall(preset):
        if title:
            parts += ["", f"**{title}**", "", "| rule | on | decision | why | matches, for example |", "|---|---|---|---|---|"]
        else:
            rule = by_id[rule_id]
            families, examples = _codes(rule.when.platform or ("*",)), _codes(rule.matches[:_EXAMPLES])
            parts.append(f"| `{rule_id}` | {families} | {rule.decision} | {rule.reason} | {examples} |")
    return "\n".join(parts[1:]) + "\n"


def _codes(texts: Iterable[str]) -> str:
    return ", ".join(_code(text) for text in texts)


def _code(text: str) -> str:
    """Return a code span in a cell; two backticks enclose a text that has one."""
    shown = text.replace("\n", " ⏎ ").replace("|", "\\|")
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"
