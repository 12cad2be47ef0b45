"""The documentation's table of what `readonly` lets pass, from the examples of its rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ptyctl.platforms import Platform

from .rules import Decision, Rule, glob_matches

#: Rules whose examples are commands that show, by the end of their ids.
_SHOWING = ("-show", "-probe", "-configuration", "-diagnose")


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
        commands = ", ".join(f"`{_cell(example)}`" for example in allowed_examples(known, name))
        rows.append(f"| `{name}` | {commands} |")
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
