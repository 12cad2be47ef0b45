"""The hooks of zsh: after which commands the keys are not read again."""

from __future__ import annotations

import subprocess

import pytest

from fixtures.servers.programs import require_program
from ptyctl.core.marker import EVALUATE
from ptyctl.session.runs.shells import zsh_hooks

#: The path has a program for each of these words.
_SCRIPT = """
{hooks}
emulate -R zsh
path=($1)
for word in true ls time . bindkey source nocorrect; do
  print -r -- "$word: $(__ptyctl_is_program "$word keys.zsh" && print program)"
  print -r -- "typed $word: $(__ptyctl_is_program " $2 '$word keys.zsh'" && print program)"
done
"""


def test_reserved_word_or_builtin_with_the_name_of_a_program_is_no_program(tmp_path_factory: pytest.TempPathFactory) -> None:
    zsh, programs = require_program("zsh", "zsh"), tmp_path_factory.mktemp("programs")
    for word in ("true", "ls", "time", "bindkey", "source", "nocorrect"):
        (programs / word).touch(mode=0o755)
    script = _SCRIPT.replace("{hooks}", zsh_hooks())
    reply = subprocess.run(
        [zsh, "-f", "-c", script, "zsh", str(programs), EVALUATE], capture_output=True, text=True, check=True, timeout=30
    )
    found = dict(line.split(": ") for line in reply.stdout.splitlines())
    assert {word for word, kind in found.items() if kind == "program"} == {"true", "ls", "typed true", "typed ls"}
