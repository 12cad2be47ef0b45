"""Exec in a shell: exact output and exit codes of any command."""

from __future__ import annotations

import time

import pytest

from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import PATIENCE_MS, Open, execute, read, refused


@pytest.fixture(params=["marks", "marker"])
def strategy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.also_remote("every field of a reply")
async def test_exec_reply_has_all_fields(bash: SessionHandle, strategy: str) -> None:
    before = time.time() * 1000
    reply = await bash.exec("echo hi")
    payload = reply.payload()
    sequence, _, begun = str(payload.pop("block_id")).partition("_")
    assert sequence == "1"
    assert before - 1 <= int(begun) <= time.time() * 1000
    assert 0 <= int(str(payload.pop("duration_ms"))) < PATIENCE_MS
    begin, end = str(payload.pop("cursor")), str(payload.pop("next_cursor"))
    assert payload == {
        "stdout": "hi\n",
        "stderr": "",
        "exit_code": 0,
        "done_reason": strategy,
        "prompt_detected": False,
        "error_hints": [],
        "timed_out": False,
        "output_truncated": False,
    }
    chunk = (await read(bash, cursor=begin, max_bytes=int(end) - int(begin), timeout_ms=0)).chunk
    assert chunk == "hi\n"  # the cursors enclose the run's text


async def test_exit_code_is_reported(bash: SessionHandle) -> None:
    for code in (0, 1, 2, 3, 42, 126, 127, 128, 130, 254, 255):
        assert (await bash.exec(f"(exit {code})")).exit_code == code


async def test_exit_code_of_command_kinds(bash: SessionHandle, strategy: str) -> None:
    for command, code in (
        ("true", 0),
        ("false", 1),
        ("no_such_command_at_all 2>/dev/null", 127),
        ("/etc/passwd 2>/dev/null", 126),
        ("sh -c 'kill -TERM $$'", 143),
        ("sh -c 'kill -9 $$'", 137),
        ("true | false", 1),
        ("false; true", 0),
        ("false && echo no", 1),
        ("! false", 0),
        ("echo x >/no/such/dir/x", 1),
        ("f() { return 9; }; f", 9),
        ("", 0),
        ("   ", 0),
        ("# nothing but a comment", 0),
        ("if true; then", 2),
        ("echo 'unclosed", 2),
        (") (", 2),
        ("set -e; true; set +e", 0),
        ("sleep 0 &", 0),
    ):
        reply = await bash.exec(command)
        if code in (1, 2) and reply.exit_code != code:
            assert reply.exit_code in (1, 2), command  # which of the two a shell gives is its own affair
        else:
            assert reply.exit_code == code, command
        assert reply.done_reason == strategy, command
        assert (await bash.exec("echo after")).stdout == "after\n", command


async def test_output_is_exact(bash: SessionHandle, strategy: str) -> None:
    for command, output in (
        ("printf x", "x"),
        ("printf 'a\\nb'", "a\nb"),
        ("printf ''", ""),
        ("echo", "\n"),
        ("printf '\\n\\n'", "\n\n"),
        ("echo ' blanks  at both ends '", " blanks  at both ends \n"),
        ("echo \"it's\" 'a \"quote\"' \\'", "it's a \"quote\" '\n"),
        ("echo '$HOME' \"\\$HOME\" \\$HOME '!!' \"`echo back`\"", "$HOME $HOME $HOME !! back\n"),
        ("echo 'é € 😀 中文'", "é € 😀 中文\n"),
        ("echo one\necho two\necho three", "one\ntwo\nthree\n"),
        ("for i in 1 2 3\ndo\n  echo $i\ndone", "1\n2\n3\n"),
        ("f() {\n\techo tabbed\n}\nf", "tabbed\n"),
        ("cat <<'END'\nline $one\n\tline two\n\nEND", "line $one\n\tline two\n\n"),
        ("cat <<END\n$((6*7))\nEND\necho behind", "42\nbehind\n"),
        ("echo 'a\nb'", "a\nb\n"),
        ("echo a \\\n  b", "a b\n"),
        ("echo a\tb\t\tc", "a b c\n"),
        ("printf '%s' '\t'", "\t"),
        ("printf '%s|' '\x01\x02\x1b[1m\x7f' | od -An -tx1", " 01 02 1b 5b 31 6d 7f 7c\n"),
        ("echo err >&2; echo out", "err\nout\n"),
        ("echo a; # comment", "a\n"),
        ("echo a;", "a\n"),
        ("echo a\n", "a\n"),
        ("\necho a", "a\n"),
        ("echo '#'; echo a#b", "#\na#b\n"),
        ("echo -n; echo '%s %d %%'", "%s %d %%\n"),
        ("printf 'a\\rb\\n'", "b\n"),
        ("printf 'ab\\b\\bX\\n'", "Xb\n"),
        ("printf '\\033[1;31mred\\033[0m\\n'", "red\n"),
        ("stty size", "40 120\n"),
        ("echo $TERM; tty >/dev/null && echo on a terminal", "xterm-256color\non a terminal\n"),
        ("seq -s ' ' 1 40", " ".join(map(str, range(1, 41))) + "\n"),
        ("printf '%0.s=' $(seq 1 300); echo", "=" * 300 + "\n"),
    ):
        reply = await bash.exec(command)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (output, 0, strategy), command


async def test_marker_text_in_output_is_kept(open_session: Open) -> None:
    bash = await open_session(shell_integration="off")
    await bash.exec("true")
    shown = (await read(bash, cursor="0", timeout_ms=0)).chunk or ""
    marker = next(line for line in shown.split("\n") if "7717" in line)
    marker = marker[marker.index(" __ptyctl_by=") :]
    quoted = marker.replace("'", "'\\''")
    reply = await bash.exec(f"echo '{quoted}'")
    assert (reply.stdout, reply.exit_code) == (f"{marker}\n", 0)
    nonce = marker.split("7717;", 1)[1].split(";")[0]
    for text in ("__PTYCTL_", f"7717;{nonce};9;E;5", f"__PTYCTL_{nonce};9;E;5__"):
        reply = await bash.exec(f"echo '{text}'; false")
        assert (reply.stdout, reply.exit_code) == (f"{text}\n", 1)


async def test_marks_of_other_runs_and_sessions_are_ignored(bash: SessionHandle, open_session: Open) -> None:
    other = await open_session(shell_integration="off")
    await other.exec("true")
    shown = (await read(other, cursor="0", timeout_ms=0)).chunk or ""
    nonce = shown.split("7717;", 1)[1].split(";")[0]
    forged = f"printf '\\033]7717;{nonce};8;B;0\\007\\033]7717;{nonce};9;E;9\\007'"
    assert (await bash.exec(f"{forged}; echo still; (exit 4)")).exit_code == 4
    reply = await bash.exec("printf '\\033]7717;x;9;E;9\\007\\033]7717;;;\\007'; echo 'fine'")
    assert (reply.stdout, reply.exit_code) == ("fine\n", 0)


async def test_output_before_a_run_is_excluded(bash: SessionHandle) -> None:
    await bash.exec("(sleep 0.2; echo late; sleep 0.2; echo later) & disown")
    reply = await bash.exec("sleep 0.6; echo mine", timeout_ms=PATIENCE_MS)
    assert reply.stdout.endswith("mine\n")  # what a background job prints meanwhile is in between
    assert "echo late" not in reply.stdout


@pytest.mark.parametrize(
    "command", ["sh -c 'echo so far; kill -INT $$'; :", "echo so far; bash --norc --noprofile", "echo so far; exec bash --norc"]
)
async def test_run_ends_at_prompt_without_mark(bash: SessionHandle, strategy: str, command: str) -> None:
    await bash.exec("true")
    reply = await bash.exec(command, timeout_ms=PATIENCE_MS)
    if "INT" in command:  # the shell itself was there all the time
        assert (reply.done_reason, reply.exit_code, reply.exit_code_reason) == (strategy, 130, None)
    else:
        assert (reply.done_reason, reply.exit_code, reply.prompt_detected) == ("prompt", None, True)
        assert reply.exit_code_reason
    assert reply.stdout.strip() == "so far"
    reply = await bash.exec("echo after; (exit 7)")
    assert (reply.stdout, reply.exit_code) == ("after\n", 7)


async def test_shell_state_persists_between_runs(bash: SessionHandle) -> None:
    await bash.exec("cd /tmp; x='a b'; f() { echo \"f $1\"; }; export Y=1; set -u")
    assert (await bash.exec('pwd; echo "$x $Y"; f 2; [[ -o nounset ]]')).stdout == "/tmp\na b 1\nf 2\n"
    assert (await bash.exec("false")).exit_code == 1
    assert (await bash.exec("echo $?")).stdout.strip().isdigit()


@pytest.mark.parametrize("setting", ["set -e", "set -u", "set -f", "IFS=x", "set -o pipefail", "PS1='> '", "PS1=''"])
async def test_run_works_after_shell_setting(bash: SessionHandle, setting: str) -> None:
    await bash.exec(setting)
    assert (await bash.exec("echo one two")).stdout == "one two\n"
    assert (await bash.exec("echo three; true")).stdout == "three\n"


async def test_run_ends_under_xtrace(bash: SessionHandle) -> None:
    await bash.exec("set -x")
    reply = await bash.exec("echo traced; (exit 3)")
    assert reply.exit_code == 3
    assert "traced\n" in reply.stdout
    assert (await bash.exec("set +x")).exit_code == 0
    assert (await bash.exec("echo plain")).stdout == "plain\n"


async def test_run_ends_with_changing_prompt(bash: SessionHandle) -> None:
    await bash.exec(r"PS1='[\!:$RANDOM:\w]\$ '")
    for number in range(5):
        assert (await bash.exec(f"echo {number}")).stdout == f"{number}\n"


async def test_two_hundred_consecutive_runs_are_exact(bash: SessionHandle) -> None:
    for number in range(200):
        reply = await bash.exec(f"echo run {number}; (exit {number})")
        assert (reply.stdout, reply.exit_code) == (f"run {number}\n", number)
        assert reply.block_id.startswith(f"{number + 1}_")


async def test_long_command_line_runs(bash: SessionHandle) -> None:
    words = " ".join(f"word{number}" for number in range(3_000))
    assert (await bash.exec(f"echo {words}", timeout_ms=PATIENCE_MS)).stdout == f"{words}\n"


@pytest.mark.also_remote("large request")
async def test_long_script_runs(bash: SessionHandle) -> None:
    script = "\n".join(f"echo 'line {number} of a script that has many of them'" for number in range(1_000))
    reply = await bash.exec(script, timeout_ms=PATIENCE_MS, max_output_bytes=100_000)
    assert reply.stdout == "".join(f"line {number} of a script that has many of them\n" for number in range(1_000))


@pytest.mark.also_remote("large reply")
@pytest.mark.parametrize("limit", [256, 2_000])
async def test_long_output_is_reduced_to_head_and_tail(bash: SessionHandle, limit: int) -> None:
    reply = await bash.exec("seq 1 300000", timeout_ms=PATIENCE_MS, max_output_bytes=limit)
    output = "".join(map("{}\n".format, range(1, 300_001)))
    assert reply.output_truncated
    head, told, tail = reply.stdout.partition("[... ")
    told, _, tail = tail.partition(" ...]\n")
    assert output.startswith(head)
    assert head[-1:] in ("", "\n")
    assert tail.endswith("299999\n300000\n")
    assert len(reply.stdout) <= limit
    assert reply.omitted_bytes is not None
    assert told.startswith(f"{reply.omitted_bytes} bytes")
    assert reply.omitted_bytes == len(output) - len(head) - len(tail)
    gap = int(reply.cursor) + len(head)
    assert f"from cursor {gap} on" in told
    again = await read(bash, mode="history", cursor=str(gap), max_bytes=reply.omitted_bytes)
    assert f"{head}{again.chunk}{tail}" == output


async def test_output_within_the_limit_is_complete(bash: SessionHandle) -> None:
    reply = await bash.exec("head -c 999 /dev/zero | tr '\\0' x; echo", max_output_bytes=1_000)
    assert (reply.stdout, reply.output_truncated, reply.omitted_bytes) == ("x" * 999 + "\n", False, None)
    reply = await bash.exec("head -c 1000 /dev/zero | tr '\\0' x; echo", max_output_bytes=1_000)
    assert (reply.output_truncated, (reply.omitted_bytes or 0) > 0) == (True, True)


@pytest.mark.also_remote("reply of an ended session")
async def test_exit_ends_session_with_its_code(bash: SessionHandle) -> None:
    reply = await bash.exec("echo bye; exit 3")
    assert (reply.exit_code, reply.done_reason, reply.stdout.startswith("bye\n")) == (3, "eof", True)
    assert reply.exit_code_reason is None
    assert (await bash.status()).state == "eof"
    with refused(ErrorCode.REMOTE_CLOSED, "exited with 3"):
        await bash.exec("echo more")
    assert (await execute(bash, block_id=reply.block_id)).exit_code == 3


async def test_killed_shell_ends_the_run(bash: SessionHandle) -> None:
    reply = await bash.exec("echo last words; kill -9 $$")
    assert (reply.exit_code, reply.done_reason, reply.stdout) == (137, "eof", "last words\n")


@pytest.mark.also_remote("refused requests")
async def test_invalid_exec_request_is_refused(bash: SessionHandle) -> None:
    refusals: list[tuple[dict[str, object], list[str]]] = [
        ({}, ["exactly one", "cmd", "lines", "block_id"]),
        ({"cmd": "x", "lines": ["y"]}, ["exactly one", "cmd and lines"]),
        ({"cmd": "x", "block_id": "1_1"}, ["exactly one"]),
        ({"lines": []}, ["lines"]),
        ({"cmd": "x", "on_error": "stop"}, ["on_error", "lines"]),
        ({"cmd": "x", "until_idle_ms": 2_000, "timeout_ms": 1_000}, ["until_idle_ms", "timeout_ms"]),
        ({"cmd": "x", "until_regex": "("}, ["until_regex"]),
        ({"cmd": "x", "responses": [{"match": "(?!a)", "send": "b"}]}, ["responses", "lookahead"]),
        ({"cmd": "x", "responses": [{"match": "a"}]}, ["responses", "send"]),
        ({"cmd": "x", "expect": {"prompt_regex": "["}}, ["expect.prompt_regex"]),
        ({"cmd": "x", "timeout_ms": -1}, ["timeout_ms"]),
        ({"cmd": "x", "max_output_bytes": 10}, ["max_output_bytes"]),
        ({"cmd": "x", "rc_mode": {"enabled": "maybe"}}, ["rc_mode"]),
        ({"cmd": ["x"]}, ["cmd"]),
        ({"cmd": "echo \udfff"}, ["cmd", "surrogate"]),
        ({"lines": ["ok", "\ud800"]}, ["lines", "surrogate"]),
        ({"cmd": "echo \0x"}, ["cmd", "NUL"]),
        ({"cmd": "x", "responses": [{"match": "a", "send": "\udfff"}]}, ["responses", "surrogate"]),
    ]
    for fields, parts in refusals:
        with refused(ErrorCode.INVALID_ARGUMENT, *parts):
            await execute(bash, **fields)
        assert (await bash.status()).mode == "idle"


async def test_mode_without_platform_is_refused(bash: SessionHandle) -> None:
    with refused(ErrorCode.UNSUPPORTED, "mode"):
        await bash.exec("x", mode="config")


async def test_unparsed_output_has_reason_and_text(bash: SessionHandle) -> None:
    reply = await bash.exec("echo hi", parse=True)
    assert (reply.stdout, reply.exit_code, reply.parsed) == ("hi\n", 0, None)
    assert "no platform" in (reply.message or "")
