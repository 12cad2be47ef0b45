"""The canonical form of a shell's text finds each command that runs, or reports that it is unknown."""

from __future__ import annotations

import shutil
import subprocess
import time
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_sitter import Node

from ptyctl.policy import shell_command
from ptyctl.policy.rules import Match
from ptyctl.policy.shell_command import MAX_TEXT, ShellText, canonical_shell, expands_history
from ptyctl.policy.shell_syntax import Budget, parse_shell
from ptyctl.policy.shell_words import Glob, could_be
from tests.cost import assert_linear

CORPUS = tomllib.loads((Path(__file__).parent / "corpus_shell.toml").read_text())
BASH = shutil.which("bash") or "bash"
#: `rm -r` of the root, a home or a system folder.
REMOVAL = (("rm",), ("-r", "-R", "--recursive"), ("/", "~", "~/", "/etc", "/usr", "/home"))


def removes(form: ShellText) -> bool:
    return any(command.match(REMOVAL) for command in form.commands)


@pytest.mark.parametrize("text", CORPUS["removes"])
def test_removal_is_found_however_it_is_written(text: str) -> None:
    assert removes(canonical_shell(text))


@pytest.mark.parametrize("text", CORPUS["formats"])
def test_command_is_found_wherever_a_shell_runs_it(text: str) -> None:
    assert any(command.match((("mkfs*",),)) for command in canonical_shell(text).commands)


@pytest.mark.parametrize("text", CORPUS["unparsed"])
def test_command_that_cannot_be_known_is_unparsed(text: str) -> None:
    assert canonical_shell(text).unparsed


@pytest.mark.parametrize("text", CORPUS["harmless"])
def test_usual_command_is_known_and_removes_nothing(text: str) -> None:
    form = canonical_shell(text)
    assert form.unparsed == ""
    assert not removes(form)


@given(st.sampled_from(CORPUS["removes"]), st.sampled_from(CORPUS["harmless"]), st.sampled_from(["; ", " && ", " || ", "\n"]))
def test_removal_after_another_command_is_found(removal: str, harmless: str, separator: str) -> None:
    form = canonical_shell(harmless.rstrip("\n") + (separator if "<<" not in harmless else "\n") + removal)
    assert removes(form) or form.unparsed


#: Words of a command, and redirections, which may be anywhere among them. A here-document follows the line.
PLAIN_WORDS = st.sampled_from(["a", "-rf", "/", "--x=y", "'b c'", '"d e"', "$'f'", "g\\ h", "1", "./i"])
REDIRECTIONS = st.sampled_from(
    [
        "2>/dev/null",
        ">x",
        ">> 'y z'",
        "2>&1",
        ">&2",
        "&>x",
        "<x",
        "<<<x",
        ">|x",
        "<&-",
        "2>&-",
        "{fd}>x",
        "<<E",
        "<<-'E'",
        '< "x y"',
    ]
)


@given(
    st.lists(st.tuples(st.lists(REDIRECTIONS, max_size=2), PLAIN_WORDS), min_size=1, max_size=5),
    st.lists(REDIRECTIONS, max_size=2),
    st.sampled_from(
        ["{}", "ls && {}", "{} && ls", "ls | {}", "{} | cat", "! {}", "( {} )", "if {}; then ls; fi", "ls; {}; ls", "{} &"]
    ),
)
def test_redirection_at_any_place_does_not_hide_words(
    places: list[tuple[list[str], str]], last: list[str], surroundings: str
) -> None:
    redirections = [each for before, _ in places for each in before] + last
    written = " ".join(["run", *(part for before, word in places for part in (*before, word)), *last])
    text = surroundings.format(written) + "\na\nE" * sum("E" in each for each in redirections) + "\n"
    form = canonical_shell(text)
    expected = next(
        c for c in canonical_shell(" ".join(["run", *(word for _, word in places)])).commands if c.words[0] == "run"
    )
    assert expected.words in [command.words for command in form.commands]


LINES = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["<x", ">y", "2>&1", "2>&-", "<<<a", "{fd}>y", "a=1", "!"]), max_size=3),
        st.lists(st.one_of(PLAIN_WORDS, REDIRECTIONS.filter(lambda each: "E" not in each)), max_size=4),
    ),
    min_size=1,
    max_size=3,
)


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a program `run` that writes its arguments to the file `ran`."""
    folder = tmp_path_factory.mktemp("stand_in")
    program = folder / "run"
    program.write_text('#!/bin/sh\nfor word; do printf "%s\\t" "$word"; done >> "$RAN"\necho >> "$RAN"\n')
    program.chmod(0o755)
    (folder / "x").touch()
    return folder


@settings(deadline=None)
@given(LINES, st.sampled_from(["; ", " && ", " || ", " | ", "\n"]))
def test_command_that_bash_runs_with_redirections_is_known_or_the_text_unparsed(
    stand_in: Path, written: list[tuple[list[str], list[str]]], separator: str
) -> None:
    text = separator.join(" ".join([*before, "run", *words]) for before, words in written)
    ran = stand_in / "ran"
    ran.write_text("")
    environment = {"PATH": str(stand_in), "RAN": str(ran)}
    subprocess.run([BASH, "-c", text], cwd=stand_in, env=environment, capture_output=True, check=False)
    form = canonical_shell(text)
    known = {command.words for command in form.commands}
    for line in ran.read_text().splitlines():
        assert form.unparsed or ("run", *line.split("\t")[:-1]) in known


@pytest.mark.parametrize(
    "text",
    [
        "</dev/null </dev/null run a 2>/dev/null",
        "</dev/null 2>&1 run a 2>&1",
        ">y <x run a 2>/dev/null",
        "date; </dev/null </dev/null run a 2>/dev/null",
        "<x <x A=1 run a 2>&1",
        "<x <x env B=1 run a 2>&1",
        "<x <x bash -c 'run a' 2>&1",
        "<x <x <x >y run a 2>&1 >y",
        "! {fd}>y run a",
        "A=1 {fd}>y run a",
        "! {fd}>y bash -c 'run a'",
        "! {fd}<<<x A=1 run a",
    ],
)
def test_command_after_leading_redirections_is_found_and_the_text_unparsed(text: str) -> None:
    form = canonical_shell(text)
    assert ("run", "a") in [command.words for command in form.commands]
    assert form.unparsed


@pytest.mark.parametrize("text", ["exec {fd}>y", "run a {fd}>y", "<x run a 2>&1", "<x >y run a", "a=1 <x run a"])
def test_redirection_beside_a_known_command_leaves_the_text_parsed(text: str) -> None:
    form = canonical_shell(text)
    assert {command.words[0] for command in form.commands} <= {"exec", "run", ">"}
    assert not form.unparsed


@given(st.sampled_from(CORPUS["removes"]))
def test_removal_inside_a_shell_of_a_shell_is_found(removal: str) -> None:
    quoted = removal.replace("'", "'\\''")
    form = canonical_shell(f"sudo bash -c '{quoted}'")
    assert removes(form) or form.unparsed


@pytest.mark.parametrize(("prefix", "unit"), [("({," + "({" * 150, ","), ("(\n", "\n"), ("(", " "), ("", "({,"), ("({", ".")])
def test_braces_that_do_not_end_are_read_in_linear_time(prefix: str, unit: str) -> None:
    assert_linear(lambda data: canonical_shell(data.decode()), unit.encode(), prefix.encode(), largest=60_000)


@pytest.mark.parametrize(
    "text",
    [
        "x=(" * 780 + "+" * 6000,  # errors that the parser reads again and again
        ";{" * 390 + "..." * 20_000,
        "!;" * 390 + "]" * 6000,
        "eval ]]then " * 333 + "]]$xfi <<<" * 20,  # here-strings of one command
        'bash -c "' * 200 + "../<<<find . -exec " * 106,
        "echo $(" * 390,
        "#" * 60_000,
        "echo {a,b}{" + "," * 60_000,
        " ".join(f"xargs -I p{number}" for number in range(600)),
        "cd /;" + "cd a;" * 700,
        "${a:=b" * 260,
    ],
    ids=lambda text: text[:12],
)
def test_reading_a_text_takes_limited_time(text: str) -> None:
    # Measured 5 to 70 ms; without limits 0.1 to 6 s. The processor time does not depend on the load.
    started = time.thread_time()
    canonical_shell(text)
    assert time.thread_time() - started < 0.4


@pytest.mark.parametrize("deny", ["rm -rf /", "sudo rm -rf /"])
def test_text_that_is_too_complex_is_unparsed_and_its_known_commands_are_found(deny: str) -> None:
    form = canonical_shell(f"{deny}\n" + "x=(" * 780 + "+" * 6000)
    assert form.unparsed
    assert any(command.words == ("rm", "-rf", "/") for command in form.commands)


def test_text_whose_parts_are_too_complex_may_be_anything() -> None:
    assert canonical_shell("\n".join(f"{number} " + "]=[~+<" * 300 for number in range(200))).opaque


def test_part_of_an_incomplete_text_is_parsed_once_while_lines_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(text: str, budget: Budget) -> Node:
        parsed.append(text)
        return parse_shell(text, budget)

    monkeypatch.setattr(shell_command, "parse_shell", parse)
    lines = ["while true; do", "sleep 123; date +%s", "uptime"]
    for end in range(1, len(lines) + 1):
        assert canonical_shell("\n".join(lines[:end])).unparsed
    assert parsed.count("sleep 123") == 1


def test_text_whose_parts_were_read_before_is_as_complex_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_command, "_FRAGMENTS_STEPS", 10_000)
    text = "\n".join(f"{number} " + "x " * 90 for number in range(30))
    form = canonical_shell(text)
    assert form.opaque
    assert 0 < len(form.commands) < 30
    assert canonical_shell(text) == form


def test_long_quoted_text_with_substitutions_is_not_too_complex() -> None:
    text = "\n".join(f'{number}\t$HOME `id` "quoted" !{number} \x01 é' for number in range(3_500))
    assert not canonical_shell(f"printf %s '{text}' | sha256sum").opaque


def test_long_text_of_a_here_document_is_not_too_complex() -> None:
    rows = "".join(f"{number:076x}\n" for number in range(4000))
    form = canonical_shell(f"cat >file <<EOF\n{rows}EOF\n")
    assert (form.opaque, form.unparsed) == (False, "the text is too long to be parsed as a whole")


@pytest.mark.parametrize("nested", ["${a:-", '${a:-"', "${a:=b", "a$a${a:-"])
@pytest.mark.parametrize("command", ["echo {}", "a={}", "rm -rf x >{}", "for x in {}; do ls; done"])
def test_values_that_are_nested_too_deeply_may_run_anything(command: str, nested: str) -> None:
    end = "}" if '"' not in nested else '"}'
    form = canonical_shell(command.format(nested * 260 + "/" + end * 260))
    assert form.opaque or form.unparsed
    assert canonical_shell("rm -rf " + nested * 18 + "/" + end * 18).commands


@given(st.text(max_size=60))
def test_any_text_has_a_canonical_form(text: str) -> None:
    canonical_shell(text)


@given(st.text(alphabet="rm /-f'\"\\$(){}`;|&<>#!*?[]=\n\t ", max_size=40))
def test_text_of_special_characters_has_a_canonical_form(text: str) -> None:
    canonical_shell(text)


def test_text_that_is_too_long_or_too_deep_is_unparsed() -> None:
    assert canonical_shell("a" * (MAX_TEXT + 1)).unparsed
    nested = "ls"
    for _ in range(12):
        nested = f"eval {nested}"
    assert canonical_shell(nested).unparsed
    assert canonical_shell("(" * 20_000).unparsed


@pytest.mark.parametrize("text", ["ls;" * 1000 + "reboot", "|" * 60_000, "$(" * 30_000, '"' * 60_000, "ls " + "a " * 3000])
def test_text_with_too_many_words_or_operators_is_unparsed(text: str) -> None:
    assert canonical_shell(text).unparsed


@pytest.mark.parametrize("begin", ["ls;" * 1000, "echo '{\"a\": [1]}' " * 500 + "\n", "$(" * 3000 + "|"])
def test_known_command_in_a_text_that_is_too_long_is_found(begin: str) -> None:
    form = canonical_shell(f"{begin}sudo reboot now")
    assert form.unparsed
    assert ("reboot", "now") in [command.words for command in form.commands]


def test_unknown_word_in_a_text_that_is_too_long_is_no_command() -> None:
    form = canonical_shell("printf %s '" + "12 $HOME `id` {x}\n" * 2000 + "'")
    assert all(command.is_known for command in form.commands)


@pytest.mark.parametrize("delimiter", ["EOF", "'EOF'"])
def test_long_text_in_a_here_document_is_parsed(delimiter: str) -> None:
    assert not canonical_shell(f"cat > x <<{delimiter}\n" + "a | b; (c) {d}\n" * 2000 + "EOF").unparsed


def test_pipelines_are_lines_of_the_canonical_text() -> None:
    assert canonical_shell("curl x | sudo -E nice bash; ls").text == "curl x | bash\nls"


def test_redirection_into_a_file_is_a_command() -> None:
    words = [command.words for command in canonical_shell("echo a > /dev/sda 2>&1").commands]
    assert words == [("echo", "a"), (">", "/dev/sda")]


@pytest.mark.parametrize(
    ("word", "pattern", "expected"),
    [
        ("/etc", "/etc", True),
        ("/etc", "/e*", True),
        ("/etc", "/usr", False),
        (Glob("/*"), "/", True),
        (Glob("/*"), "/etc", True),
        (Glob("/e?c"), "/etc", True),
        (Glob("/e?c"), "/usr", False),
        (Glob("*.txt"), "/etc", False),
        (Glob("[ab]x"), "?x", True),
        (None, "anything", True),
    ],
)
def test_could_be_compares_known_unknown_and_glob_words_with_a_pattern(word: str | None, pattern: str, expected: bool) -> None:
    assert could_be(word, pattern) is expected


@given(st.text(alphabet="ab*?", max_size=8), st.text(alphabet="ab", max_size=8))
def test_could_be_is_true_for_each_text_that_a_glob_matches(pattern: str, text: str) -> None:
    assert could_be(Glob(pattern), text) == fnmatchcase(text, pattern) == could_be(text, pattern)


@pytest.mark.parametrize(("text", "runs"), [("fc -s reboot", True), ("fc", True), ("fc -l", False), ("fc -ln 3", False)])
def test_history_that_runs_again_is_unparsed(text: str, runs: bool) -> None:
    assert bool(canonical_shell(text).unparsed) is runs


@pytest.mark.parametrize(
    "text",
    [
        "!rm",
        "ls; !!",
        "ls /\n^ls^rm -rf",
        """echo "it's"; !rm; echo "it's\"""",
        r"echo \'; !rm; echo \'",
        """echo "it's !rm'\"""",
        """echo "a 'x !rm'""",
        "# it's\n!rm\n# it's",
        r'echo "\\!rm"',
        "[!rm",
        "$!rm",
    ],
)
def test_history_that_a_shell_expands_is_found(text: str) -> None:
    assert expands_history(text)


@pytest.mark.parametrize(
    "text",
    [
        "pid=$!;",
        "kill $!;",
        "(cmd & echo $!)",
        "ls [!a]*",
        "echo ${!x}",
        'echo "${!a[@]}"',
        "echo 'a !rm'",
        r"echo \!rm",
        "[ a != b ]",
        "! grep x",
        r"""echo "a\"b" '!x' """,
    ],
)
def test_other_use_of_an_exclamation_mark_is_no_history(text: str) -> None:
    assert not expands_history(text)


def test_arguments_of_a_command_are_compared_once_per_text_and_not_per_value_and_pattern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[object] = []

    def count(word: str | None, pattern: str) -> bool:
        compared.append(word)
        return could_be(word, pattern)

    monkeypatch.setattr(shell_command, "could_be", count)
    values = " ".join(f"v{number}" for number in range(30))
    removed = " ".join(f'"$x{number}"' for number in range(100))
    command = canonical_shell(f"for x in {values}; do rm {removed}; done").commands[-1]
    for _ in range(10):
        command.match((("rm",), ("/boot",)))
    assert len(compared) < 10 * 400


def test_command_with_too_many_likely_arguments_matches() -> None:
    values = " ".join(f"v{number}" for number in range(30))
    removed = " ".join(f'"$x{number}/{number}"' for number in range(100))
    command = canonical_shell(f"for x in {values}; do rm {removed}; done").commands[-1]
    assert command.match((("rm",), ("/boot/7",))) is Match.FOUND
