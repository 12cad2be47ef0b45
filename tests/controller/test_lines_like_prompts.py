"""Lines of a shell's line editor with a row that looks like the prompt: a denied command above it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api.errors import ErrorCode
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import BASH, PATIENCE_MS, Open, execute, execute_when_free, read, refused, write

PROMPT = "here> "
#: With the prompt, this text fills a row of 120 columns.
WRAPPED = f"touch FILLED;\x1b[C{'':{120 - len(PROMPT) - len('touch FILLED;')}}{PROMPT}ls"
UP, LEFT = "\x1b[A", "\x1b[D"
#: The command that adds two lines to the history.
REMEMBER = {"zsh": "print -s", "bash": "history -s"}
RULES = """
extends = ["off"]
unreadable = "ask"

[[rules]]
id = "forbidden"
command = ["touch", "FILLED*"]
decision = "deny"
reason = "it leaves a file"
"""


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy, and the variables of the shells: a request to open a session with these would be judged."""
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / ".zshrc").write_text(f"PS1='{PROMPT}'\nbindkey -e\n")
    variables = {
        "PTYCTL_POLICY": str(tmp_path / "rules.toml"),
        "ZDOTDIR": str(tmp_path),
        "PS1": PROMPT,
        "HISTFILE": "/dev/null",
    }
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)


@pytest.fixture(params=["zsh", "bash"])
def name(request: pytest.FixtureRequest) -> str:
    require_program(request.param, request.param)
    return str(request.param)


@pytest.fixture(params=["auto", "off"])
async def shell(name: str, open_session: Open, request: pytest.FixtureRequest, tmp_path: Path) -> SessionHandle:
    """A shell in an empty folder, with marks and without them; its prompt is known."""
    (tmp_path / "folder").mkdir()
    command = BASH if name == "bash" else (name,)
    handle = await open_session(command=command, cwd=str(tmp_path / "folder"), shell_integration=request.param)
    await execute(handle, cmd="word='touch FILLED'", timeout_ms=PATIENCE_MS)
    return handle


def names(tmp_path: Path) -> list[str]:
    return [file.name for file in (tmp_path / "folder").iterdir()]


async def prompt_is_shown(shell: SessionHandle) -> None:
    """Wait for the prompt. A run ends at its mark: nobody knows where a line begins that is typed before it is shown."""
    assert (await shell.screen(until_regex=rf"(?m)^({PROMPT.rstrip()}|.*[#$]) *$", timeout_ms=PATIENCE_MS)).matched


async def test_row_of_a_wrapped_line_hides_no_denied_command(shell: SessionHandle, tmp_path: Path) -> None:
    with refused(ErrorCode.POLICY_DENIED):
        await write(shell, data=f"{WRAPPED}\r")
    assert (await execute_when_free(shell, cmd="echo hi")).stdout == "hi\n"
    assert names(tmp_path) == []


async def test_row_of_a_line_of_the_history_hides_no_denied_command(shell: SessionHandle, name: str, tmp_path: Path) -> None:
    await execute(shell, cmd=f"{REMEMBER[name]} \"$word\"$'\\n{PROMPT}ls'", timeout_ms=PATIENCE_MS)
    with refused(ErrorCode.POLICY_DENIED):
        await write(shell, data=f"{UP}\r")
    assert (await execute_when_free(shell, cmd="echo hi")).stdout == "hi\n"
    assert names(tmp_path) == []


async def test_line_behind_output_without_a_line_end_hides_no_denied_command(shell: SessionHandle, tmp_path: Path) -> None:
    """bash redraws the line as if its prompt were in the first column: the screen shows another line then."""
    output = "a" * 40
    await execute(shell, cmd=f"printf {output}", timeout_ms=PATIENCE_MS)
    assert (await shell.screen(until_regex=rf"(?m)^(?:{output}.*[#$>]|{PROMPT.rstrip()}) *$", timeout_ms=PATIENCE_MS)).matched
    with refused(ErrorCode.POLICY_DENIED):
        await write(shell, data="xtouch FILLED\x01\x04\r")
    assert (await execute_when_free(shell, cmd="echo hi")).stdout == "hi\n"
    assert names(tmp_path) == []


@pytest.mark.parametrize("line", ["touch OTHER", f"touch {'x' * 150}"], ids=["one row", "two rows"])
async def test_edited_line_is_readable(shell: SessionHandle, line: str, tmp_path: Path) -> None:
    await prompt_is_shown(shell)
    await write(shell, data=f"{line}{LEFT}\r")
    assert (await execute_when_free(shell, cmd="echo hi")).stdout == "hi\n"
    assert names(tmp_path) == [line.split()[1]]


@pytest.mark.parametrize("new", ["new> ", "new! "])
async def test_row_like_the_prompt_before_the_last_one_hides_no_denied_command(
    shell: SessionHandle, new: str, tmp_path: Path
) -> None:
    await write(shell, data=f"PS1='{new}'\r")
    assert (await read(shell, cursor="0", until_regex=f"\n{new}$", timeout_ms=PATIENCE_MS)).matched
    blanks = 120 - len(new) - len("touch FILLED;")
    with refused(ErrorCode.POLICY_DENIED):
        await write(shell, data=f"touch FILLED;\x1b[C{'':{blanks}}{PROMPT}ls\r")
    assert (await execute_when_free(shell, cmd="echo hi")).stdout == "hi\n"
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "before",
    [None, {"cmd": f"PS1=$'first\\n{PROMPT}'"}, {"cmd": "echo hi", "rc_mode": {"enabled": False}}],
    ids=["one row", "two rows", "without marks"],
)
async def test_row_like_the_prompt_before_one_typed_ahead_hides_no_denied_command(
    shell: SessionHandle, before: dict[str, object] | None, tmp_path: Path
) -> None:
    """Also if the prompt before had two rows, or if it was learned without its mark."""
    if before is not None:
        await execute(shell, **before, timeout_ms=PATIENCE_MS)
    blanks = 120 - len("new! ") - len("touch FILLED;")
    with refused(ErrorCode.POLICY_DENIED):
        await write(shell, data=f"PS1='new! '\rtouch FILLED;\x1b[C{'':{blanks}}{PROMPT}ls\r")
    assert (await execute_when_free(shell, cmd="echo hi")).stdout == "hi\n"
    assert names(tmp_path) == []


async def test_edited_line_after_a_prompt_of_two_rows_is_readable(shell: SessionHandle, tmp_path: Path) -> None:
    await execute(shell, cmd=f"PS1=$'first\\n{PROMPT}'", timeout_ms=PATIENCE_MS)
    for line in ("touch OTHER", "touch another"):
        await prompt_is_shown(shell)
        await write(shell, data=f"{line}{LEFT}\r")
        assert (await execute_when_free(shell, cmd="echo hi")).stdout == "hi\n"
    assert sorted(names(tmp_path)) == ["OTHER", "another"]
