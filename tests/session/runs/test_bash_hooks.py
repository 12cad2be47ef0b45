"""The prompt marks of the bash hooks follow what a command has changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ptyctl.core.marks import Mark, MarkReader
from ptyctl.session.runs import shells

HOOKS = Path(shells.__file__).with_name("hooks.bash")
INSTALL = f"__ptyctl_nonce=abcdef; . {HOOKS}; __ptyctl_install"
PROMPT = "{ __ptyctl_prompt; } 2>/dev/null"


def prompts(folder: Path, *commands: str) -> list[Mark]:
    """The prompt marks that follow these commands."""
    script = "\n".join([INSTALL, *(f"{command}\n{PROMPT}" for command in commands)])
    output = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, check=True, cwd=folder, timeout=60).stdout
    reader = MarkReader("abcdef")
    marks = [reader.read(part.removeprefix(b"\x1b]")) for part in output.split(b"\x07")[:-1]]
    return [mark for mark in marks if mark is not None]


def test_prompt_mark_reports_vi_mode_only_while_it_is_set(tmp_path: Path) -> None:
    marks = prompts(tmp_path, "set -o vi", ":", "set +o vi", ":")
    assert [(mark.keys or "").startswith("vi") for mark in marks] == [True, True, False, False]


@pytest.mark.parametrize("option", ["shopt -u nocasematch", "shopt -s nocasematch"])
def test_prompt_mark_reports_directory_that_differs_in_case(tmp_path: Path, option: str) -> None:
    for name in ("Folder", "folder"):
        (tmp_path / name).mkdir()
    marks = prompts(tmp_path, option, "cd Folder", "cd ../folder", "cd ..")
    assert [mark.directory for mark in marks] == [str(tmp_path / name) for name in ("", "Folder", "folder", "")]


@pytest.mark.parametrize("names", ["builtin", "eval", "builtin eval", "builtin command", "printf"])
def test_prompt_marks_are_sent_while_functions_are_named_as_builtins(tmp_path: Path, names: str) -> None:
    define = "; ".join(f"{name}() {{ echo function; }}" for name in names.split())
    remove = "IFS=' '; unset -f " + names
    lines = ["IFS=biltn", define, ":", remove, ":"]
    assert [mark.status for mark in prompts(tmp_path, *lines)] == [0] * len(lines)


@pytest.mark.parametrize("options", ["-e", "-u", "-x", "-eux"])
def test_prompt_marks_are_sent_under_options(tmp_path: Path, options: str) -> None:
    marks = prompts(tmp_path, f"set {options}", "cd /", f"set +{options[1:]}", ":")
    assert [(mark.status, mark.directory) for mark in marks] == [(0, str(tmp_path)), *[(0, "/")] * 3]
