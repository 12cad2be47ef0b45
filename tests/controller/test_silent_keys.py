"""Keys that a command reads without echo: they are recorded by their length, though a shell of this machine reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from tests.controller.marked_shells import blocks
from tests.controller.session_calls import PATIENCE_MS, Open, read, write

PIN = "7391"
READS = {
    "bash": (("bash", "--norc", "--noprofile"), "read -rsn4 -p 'PIN: ' pin; echo got"),
    "zsh": (("zsh", "-f"), "read -rsk4 'pin?PIN: '; echo got"),
    "fish": (("fish", "--no-config"), "read -s -n 4 -P 'PIN: ' pin; echo got"),
    "dash": (("dash",), "stty -icanon -echo; printf 'PIN: '; dd bs=1 count=4 >/dev/null 2>&1; stty icanon echo; echo got"),
    "dash in bash": (
        ("bash", "--norc", "--noprofile"),
        "dash -c \"stty -icanon -echo; printf 'PIN: '; dd bs=1 count=4 2>/dev/null >&2; stty icanon echo\"; echo got",
    ),
}


@pytest.mark.parametrize("is_typed", [False, True])
@pytest.mark.parametrize(("command", "question"), READS.values(), ids=READS)
async def test_keys_that_a_command_reads_without_echo_are_recorded_by_their_length(
    open_session: Open, command: tuple[str, ...], question: str, is_typed: bool
) -> None:
    require_program(command[0], command[0])
    shell = await open_session(command=command)
    await shell.exec("true", timeout_ms=PATIENCE_MS)
    if is_typed:
        await write(shell, data=question + "\n", until_regex=r"PIN: \z", timeout_ms=PATIENCE_MS)
    else:
        await shell.exec(question, until_regex=r"PIN: \z", timeout_ms=PATIENCE_MS)
    for key in PIN:
        await write(shell, data=key)
    await read(shell, cursor="0", until_regex=r"PIN: [^a-z']*got", timeout_ms=PATIENCE_MS)
    folder = Path((await blocks(shell))[0].output_path).parents[1]
    await shell.close(force=True)
    rows = [json.loads(line) for line in (folder / "input.jsonl").read_text().splitlines()]
    keys = [row for row in rows if row["bytes"] == 1]
    assert len(keys) >= len(PIN)
    assert [row["data"] for row in keys if row.get("data", "") in tuple(PIN)] == [], (folder / "output.raw").read_bytes()[-300:]
