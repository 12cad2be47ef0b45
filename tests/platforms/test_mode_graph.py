"""Paths between modes, on random graphs compared with an exhaustive search, and on the built-in families."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.platforms import ModeGraph, Platform, Platforms
from ptyctl.platforms.platform import CliMode, ModeTransition
from tests.cost import lines_of

PLATFORMS = Platforms()
NAMES = ["a", "b", "c", "d", "e"]
EDGES = st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=12)


def platform_of(edges: set[tuple[str, str]]) -> Platform:
    def moves(source: str) -> dict[str, ModeTransition]:
        return {
            target: ModeTransition(commands=(f"{source} to {target}",)) for begin, target in sorted(edges) if begin == source
        }

    return Platform(title="random", home=("a",), modes={name: CliMode(to=moves(name)) for name in NAMES})


def fewest_moves(edges: set[tuple[str, str]], source: str, target: str) -> int | None:
    """The length of the shortest path, by trying all paths."""
    for length in range(len(NAMES)):
        for between in itertools.product(NAMES, repeat=max(length - 1, 0)):
            path = [source, *between, target] if length else [source]
            if path[-1] == target and all(step in edges for step in itertools.pairwise(path)):
                return length
    return None


@given(EDGES, st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_path_is_complete_and_shortest(edges: set[tuple[str, str]], source: str, target: str) -> None:
    graph, fewest = ModeGraph(platform_of(edges)), fewest_moves(edges, source, target)
    if fewest is None:
        with pytest.raises(PtyctlError, match=f"from mode {source} to {target}"):
            graph.path(source, target)
        return
    path = graph.path(source, target)
    assert len(path) == fewest
    assert [step.source for step in path] + [target] == [source, *(step.target for step in path)]
    assert all(step.transition.commands == (f"{step.source} to {step.target}",) for step in path)


@pytest.mark.parametrize(
    ("family", "source", "target", "commands"),
    [
        ("cisco_ios", "user", "config", ["enable", "configure terminal"]),
        ("cisco_ios", "config", "user", ["end", "disable"]),
        ("cisco_ios", "privileged", "privileged", []),
        ("juniper_junos", "shell", "config", ["cli", "configure"]),
        ("huawei_vrp", "system_view", "user_view", ["return"]),
        ("nokia_sros", "md_config", "md", ["exit all", "quit-config"]),
        ("frr", "user", "config", ["enable", "configure terminal"]),
    ],
)
def test_path_has_expected_commands(family: str, source: str, target: str, commands: list[str]) -> None:
    path = ModeGraph(PLATFORMS.get(family)).path(source, target)
    assert [command for step in path for command in step.transition.commands] == commands


@pytest.mark.parametrize("family", PLATFORMS.names())
def test_every_configuration_mode_has_a_path_home(family: str) -> None:
    platform = PLATFORMS.get(family)
    stuck = [name for name, mode in platform.modes.items() if mode.config and not ModeGraph(platform).path_home(name)]
    assert stuck == []
    assert not any(platform.modes[name].config for name in platform.home)


def test_enable_dialog_uses_enable_secret() -> None:
    (step,) = ModeGraph(PLATFORMS.get("cisco_ios")).path("user", "privileged")
    (answer,) = step.transition.dialog
    assert answer.match.matches("Password: ")
    assert answer.secret == "enable"


def test_path_home_leads_to_nearest_home_mode() -> None:
    graph = ModeGraph(PLATFORMS.get("nokia_sros"))
    assert [step.target for step in graph.path_home("classic_config") or ()] == ["classic"]
    assert [step.target for step in graph.path_home("md_config") or ()] == ["md"]
    assert graph.path_home("md") == ()


def test_unknown_mode_and_missing_path_are_unsupported() -> None:
    graph = ModeGraph(PLATFORMS.get("cisco_ios"))
    with pytest.raises(PtyctlError, match="'enable' is not known") as unknown:
        graph.path("user", "enable")
    assert unknown.value.code is ErrorCode.UNSUPPORTED
    assert "privileged" in (unknown.value.hint or "")
    with pytest.raises(PtyctlError, match="no path is known from mode rommon"):
        graph.path("rommon", "privileged")
    assert graph.path_home("rommon") is None


@pytest.mark.parametrize(
    ("family", "line", "mode", "rest"),
    [
        ("cisco_ios", "sw1#show ver", "privileged", "show ver"),
        ("cisco_ios", "sw1(config-if)#ip addr 10.0.0.1", "config", "ip addr 10.0.0.1"),
        ("frr", "R1> show ip route 10#", "user", "show ip route 10#"),
        ("huawei_vrp", "[~HUAWEI]dis cur", "system_view", "dis cur"),
        ("mikrotik_routeros", "[admin@MikroTik] > /ip add", "cli", "/ip add"),
    ],
)
def test_prompt_before_text_splits_prompt_and_half_typed_command(family: str, line: str, mode: str, rest: str) -> None:
    found = PLATFORMS.get(family).profile.prompt_before_text(["", line])
    assert found is not None
    assert (found[0].mode, found[1]) == (mode, rest)


@pytest.mark.parametrize("line", ["", "sw1#", "sw1# ", "plain text", "#### banner"])
def test_prompt_before_text_without_text_is_none(line: str) -> None:
    assert PLATFORMS.get("cisco_ios").profile.prompt_before_text([line]) is None


@pytest.mark.parametrize("family", PLATFORMS.names())
def test_prompt_before_text_in_a_long_line_costs_as_much_as_in_a_short_one(family: str) -> None:
    profile = PLATFORMS.get(family).profile
    short, long = "# " * 150, "# " * 2_000
    assert lines_of(lambda: profile.prompt_before_text([long])) <= 2 * lines_of(lambda: profile.prompt_before_text([short]))


@given(st.sampled_from(PLATFORMS.names()), st.lists(st.text(max_size=40), max_size=3))
def test_shown_prompt_accepts_any_text(family: str, lines: list[str]) -> None:
    profile = PLATFORMS.get(family).profile
    shown = profile.shown_prompt(lines)
    assert shown is None or shown.mode in PLATFORMS.get(family).modes
    profile.prompt_before_text(lines)
