"""Policy files: read TOML text into a checked policy.

Errors name lines, which are found by the rules' headers and ids in the text: the TOML parser of the standard library reports
none.
"""

from __future__ import annotations

import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from pydantic_core import to_json

from ptyctl.api.errors import PtyctlError, invalid
from ptyctl.api.field_faults import field_faults, toml_path
from ptyctl.api.model import Value
from ptyctl.platforms import Platform

from .evaluate import Evaluator, PolicySettings, ReadShell, RuleSet
from .rules import ORIGIN_KEYS, UNKNOWN_PLATFORM, Decision, DecisionRequest, Rule, glob_matches, strictest

#: The policies of the package, from the weakest to the strictest.
PRESETS = ("off", "guarded", "readonly")
DEFAULT_PRESET = "guarded"
_RULE_HEADER = re.compile(r"[ \t]*\[\[[ \t]*rules[ \t]*\]\]")
_HINT = "docs/policy.md explains the fields"
_NAME_FILE = f"name a readable file, or a preset: {', '.join(PRESETS)}"

#: Returns the text of a policy by the name in `extends`.
ReadPolicy = Callable[[str], str]


class PolicyTables(Value):
    """The tables of a policy file. An absent decision is that of the extended policies: the strictest of several."""

    extends: tuple[str, ...] = ()
    default: Literal["allow", "ask", "deny"] | None = None
    programs: Literal["allow", "ask", "deny"] | None = None
    unparsed: Decision | None = None
    unreadable: Decision | None = None
    rules: Annotated[tuple[Rule, ...], Field(max_length=10_000)] = ()


@dataclass(frozen=True, slots=True)
class PlacedRule:
    """A rule, and the file and line that it is from."""

    rule: Rule
    source: str
    line: int | None

    @property
    def place(self) -> str:
        return _place(self.source, self.line)


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of a policy file and of those that it extends, and the decisions where no rule decides."""

    name: str
    settings: PolicySettings
    rules: tuple[PlacedRule, ...]
    evaluator: Evaluator


def load_policy(
    name: str,
    *,
    read: ReadPolicy,
    platforms: Mapping[str, Platform],
    read_shell: ReadShell,
) -> Policy:
    """Load a policy with those that it extends, and check the examples of its rules.

    Args:
        name: a preset or a file.
        read: returns the text of a policy that is no preset.

    Raises:
        PtyctlError: INVALID_ARGUMENT, naming file, line and rule. The caller keeps the policy that it has.
    """
    settings, rules, rule_set = _load_preset(name) if name in PRESETS else _load(name, read)
    for placed in rules:
        if placed.source not in PRESETS:
            for fault in _faults(placed, platforms, read_shell):
                raise fault
    return Policy(name, settings, rules, Evaluator(rule_set, settings, platforms, read_shell))


def run_examples(
    name: str, *, read: ReadPolicy, platforms: Mapping[str, Platform], read_shell: ReadShell
) -> tuple[int, list[PtyctlError]]:
    """Check all examples of a policy and of those that it extends, presets included.

    Returns:
        Their number, and an error for each one that fails and each name that does not exist.

    Raises:
        PtyctlError: INVALID_ARGUMENT for a file that is faulty otherwise.
    """
    loader = _Loader(read)
    loader.load(name, ())
    number = sum(len(placed.rule.matches) + len(placed.rule.passes) for placed in loader.rules)
    return number, [fault for placed in loader.rules for fault in _faults(placed, platforms, read_shell)]


def read_policy_file(folder: Path) -> ReadPolicy:
    """Return the function that reads policy files, whose relative paths begin in the folder."""

    def read(name: str) -> str:
        path = policy_path(folder, name)
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise invalid(f"the policy {path} is not a file", hint=_NAME_FILE, path=str(path))
            return path.read_bytes().decode("utf-8")
        except OSError as error:
            raise invalid(
                f"the policy {path} cannot be read: {error.strerror}",
                hint=_NAME_FILE,
                path=str(path),
            ) from None
        except UnicodeDecodeError:
            raise invalid(f"the policy {path} is not UTF-8 text", hint="save the file as UTF-8", path=str(path)) from None
        except ValueError:  # a NUL in the name
            raise invalid(f"{str(path)!r} is no name of a policy file", hint=_NAME_FILE, path=str(path)) from None

    return read


def policy_path(folder: Path, name: str) -> Path:
    """Return the path of a policy file. A `~` of an unknown user is part of the file's name."""
    try:
        return folder / Path(name).expanduser()
    except RuntimeError:
        return folder / name


def _load(name: str, read: ReadPolicy) -> tuple[PolicySettings, tuple[PlacedRule, ...], RuleSet]:
    loader = _Loader(read)
    settings = loader.load(name, ())
    rule_set = RuleSet((placed.rule for placed in loader.rules), known=_preset_tables(DEFAULT_PRESET).rules)
    return settings, tuple(loader.rules), rule_set


class _Loader:
    """Collects the rules of a policy and of those that it extends, each file once."""

    def __init__(self, read: ReadPolicy) -> None:
        self.rules: list[PlacedRule] = []
        self._read = read
        self._loaded: dict[str, PolicySettings] = {}
        self._ids: dict[str, PlacedRule] = {}

    def load(self, name: str, extending: tuple[str, ...]) -> PolicySettings:
        if name in extending:
            chain = " -> ".join((*extending[extending.index(name) :], name))
            raise invalid(f"{extending[-1]}: extends leads back to itself: {chain}", hint="remove one of them from extends")
        if name not in self._loaded:
            text = preset_text(name) if name in PRESETS else self._read(name)
            tables = _preset_tables(name) if name in PRESETS else _parse(name, text)
            extended = [self.load(other, (*extending, name)) for other in tables.extends]
            for rule, line in zip(tables.rules, _rule_lines(text, tables.rules), strict=True):
                self._add(PlacedRule(rule, name, line))
            self._loaded[name] = _settings(tables, extended)
        return self._loaded[name]

    def _add(self, placed: PlacedRule) -> None:
        other = self._ids.setdefault(placed.rule.id, placed)
        if other is not placed:
            raise _faulty(placed, f"the id is also that of the rule at {other.place}", "give each rule an id of its own")
        self.rules.append(placed)


def preset_text(name: str) -> str:
    """Return the text of a preset."""
    return (resources.files(__package__) / "presets" / f"{name}.toml").read_text("utf-8")


@cache
def _load_preset(name: str) -> tuple[PolicySettings, tuple[PlacedRule, ...], RuleSet]:
    return _load(name, preset_text)


@cache
def _preset_tables(name: str) -> PolicyTables:
    return _parse(name, preset_text(name))


def _parse(name: str, text: str) -> PolicyTables:
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise invalid(f"{name}: not valid TOML: {error}", hint="correct the file's syntax", path=name) from None
    try:
        return PolicyTables.model_validate_json(to_json(tables), strict=True)
    except ValidationError as error:
        problems = [_problem(fault.location, fault.problem, tables, name, text) for fault in field_faults(error)]
        raise invalid("; ".join(dict.fromkeys(problems)), hint=_HINT, path=name) from None
    except PtyctlError as error:
        raise invalid(f"{name}: {error.message}", hint=error.hint, path=name) from None


def _problem(location: tuple[int | str, ...], message: str, tables: dict[str, Any], name: str, text: str) -> str:
    """Describe a fault by file, line, rule and field."""
    if len(location) > 1 and location[0] == "rules" and isinstance(location[1], int):
        rule = tables["rules"][location[1]]
        rule_id = rule.get("id") if isinstance(rule, dict) else None
        lines = _header_lines(text)
        line = lines[location[1]] if location[1] < len(lines) else _id_line(text, rule_id)
        rule_name = f"rule {rule_id!r}" if isinstance(rule_id, str) else f"rule number {location[1] + 1} (without an id)"
        field = toml_path(location[2:])
        return f"{_place(name, line)}: {rule_name}: {f'{field}: ' if field else ''}{message}"
    field = toml_path(location)
    key = re.search(rf"^[ \t]*{re.escape(str(location[0]))}[ \t]*=", text, re.M) if location else None
    line = None if key is None else text.count("\n", 0, key.start()) + 1
    return f"{_place(name, line)}: {field}: {message}"


def _place(source: str, line: int | None) -> str:
    return source if line is None else f"{source}:{line}"


def _header_lines(text: str) -> list[int]:
    return [line for line, content in enumerate(text.split("\n"), 1) if _RULE_HEADER.match(content)]


def _id_line(text: str, rule_id: object) -> int | None:
    found = re.search(rf"\bid\s*=\s*[\"']{re.escape(str(rule_id))}[\"']", text)
    return None if found is None else text.count("\n", 0, found.start()) + 1


def _rule_lines(text: str, rules: tuple[Rule, ...]) -> Iterator[int | None]:
    """Return the line of each rule: that of its header, or of its id if the rules are an inline list."""
    headers = _header_lines(text)
    return iter(headers) if len(headers) == len(rules) else (_id_line(text, rule.id) for rule in rules)


def _settings(tables: PolicyTables, extended: list[PolicySettings]) -> PolicySettings:
    def decision(field: str) -> Decision:
        own = getattr(tables, field)
        inherited = [getattr(settings, field) for settings in extended or [PolicySettings()]]
        return strictest(inherited) if own is None else Decision(own)

    return PolicySettings(*map(decision, PolicySettings.__dataclass_fields__))


def _faulty(placed: PlacedRule, problem: str, hint: str) -> PtyctlError:
    message = f"{placed.place}: rule {placed.rule.id!r}: {problem}"
    return invalid(message, hint=hint, path=placed.source, line=placed.line, rule=placed.rule.id)


def _faults(placed: PlacedRule, platforms: Mapping[str, Platform], read_shell: ReadShell) -> Iterator[PtyctlError]:
    """Yield an error for each name that does not exist and each example that fails."""
    yield from _unknown_names(placed, platforms)
    yield from _failing_examples(placed, platforms, read_shell)


def _unknown_names(placed: PlacedRule, platforms: Mapping[str, Platform]) -> Iterator[PtyctlError]:
    """Yield an error for each glob that fits no name: a misspelt one would make the rule match nothing."""
    when = placed.rule.when
    modes = {mode for platform in _selected(placed.rule, platforms).values() for mode in platform.modes} if when.mode else ()
    for key, globs, names, what in (
        ("platform", when.platform, platforms, "platform"),
        ("mode", when.mode, sorted(modes), "mode of these platforms"),
        ("where", when.where, ("prompt", "program"), "place"),
        ("kind", when.kind, ("person", "agent"), "kind of principal"),
    ):
        for glob in globs or ():
            if not any(glob_matches((glob,), name) for name in names):
                yield _faulty(placed, f"when.{key}: no {what} is named {glob!r}", f"use one of: {', '.join(names)}")


def _selected(rule: Rule, platforms: Mapping[str, Platform]) -> dict[str, Platform]:
    globs = rule.when.platform
    if globs is None:
        return {UNKNOWN_PLATFORM: platforms[UNKNOWN_PLATFORM]} if rule.when.mode is None else dict(platforms)
    return {name: platforms[name] for name in platforms if glob_matches(globs, name)}


def example_requests(rule: Rule, text: str, platforms: Mapping[str, Platform]) -> Iterator[DecisionRequest]:
    """Yield the requests to judge an example of a rule with.

    There is one for each platform that the rule is for, in the first mode that fits the rule. A rule without a mode is judged
    in the mode for running commands, one without a platform on an unknown device.
    """
    where: Literal["prompt", "program"] = "prompt" if glob_matches(rule.when.where or ("*",), "prompt") else "program"
    for name, platform in _selected(rule, platforms).items():
        if rule.when.mode is None:
            yield DecisionRequest(text, name, mode=platform.home[0], where=where)
        else:
            mode = next((mode for mode in platform.modes if glob_matches(rule.when.mode, mode)), None)
            if mode is not None:
                yield DecisionRequest(text, name, mode=mode, where=where)


def _failing_examples(placed: PlacedRule, platforms: Mapping[str, Platform], read_shell: ReadShell) -> Iterator[PtyctlError]:
    """Yield an error for each example that fails with the rule alone, without its keys that name a device or principal."""
    rule = placed.rule
    if not rule.matches and not rule.passes:
        return
    when = rule.when.model_copy(update=dict.fromkeys(ORIGIN_KEYS))
    evaluator = Evaluator(RuleSet((rule.model_copy(update={"when": when}),)), PolicySettings(), platforms, read_shell)
    for expected, texts in ((True, rule.matches), (False, rule.passes)):
        for text in texts:
            for request in example_requests(rule, text, platforms):
                verdict = evaluator.verdict_by_rules(request)
                if (rule.id in verdict.rules) is not expected:
                    problem = f"the example {text!r} in {'matches' if expected else 'passes'} "
                    problem += f"{'does not match' if expected else 'matches'} on {request.platform}"
                    problem += f" in mode {request.mode}; its canonical form is {verdict.canonical!r}"
                    yield _faulty(placed, problem, "correct the rule or the example")
                    break
