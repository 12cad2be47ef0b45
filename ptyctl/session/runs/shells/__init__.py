"""Starting local shells with shell integration. The shell still reads its own start-up files, and its prompt is unchanged."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transports.caller import environment

_HERE = Path(__file__).parent
#: Names the file with the nonce, which the shell reads and removes: /proc/PID/environ never changes while the shell lives.
_NONCE_FILE = "PTYCTL_NONCE_FILE"


@dataclass(frozen=True, slots=True)
class Start:
    """A program's arguments, and variables that are added to its environment."""

    argv: tuple[str, ...]
    env: dict[str, str]


def new_nonce() -> str:
    """Return a random nonce that distinguishes one source of marks from all others."""
    return secrets.token_hex(8)


def with_marks(argv: Sequence[str], nonce_file: str, env: Mapping[str, str]) -> Start | None:
    """Return how to start a shell with marks; None for an unknown program, a script or a login shell.

    Args:
        nonce_file: path of the file with the nonce of the marks, which the shell removes.
        env: the variables that the caller adds to the environment.
    """
    name = argv[0].rpartition("/")[2]
    known = _SHELLS.get(name)
    if known is None or not all(option.startswith("-") and option not in _OTHER_USES for option in argv[1:]):
        return None
    return known(tuple(argv), {_NONCE_FILE: nonce_file}, env)


def without_history(argv: Sequence[str]) -> dict[str, str]:
    """Return variables for a local ksh or busybox, which records every line that is typed, those of the marker as well."""
    program = Path(shutil.which(argv[0]) or argv[0])
    is_recording = any(path.name.startswith(_RECORDING_SHELLS) for path in (program, program.resolve()))
    return {"HISTFILE": os.devnull} if is_recording else {}


def bash_hooks() -> str:
    """Return the hooks for bash as one text, to be typed into a remote shell."""
    return _bare(_HERE / "hooks.bash")


def zsh_hooks() -> str:
    """Return the hooks for zsh, as `bash_hooks`."""
    return _bare(_HERE / "zsh" / "hooks.zsh")


def _bare(path: Path) -> str:
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def _bash(argv: tuple[str, ...], added: dict[str, str], env: Mapping[str, str]) -> Start:
    rest = tuple(option for option in argv[1:] if option != "--norc")
    norc = {"PTYCTL_NORC": ""} if "--norc" in argv else {}
    return Start((argv[0], "--rcfile", str(_HERE / "bash.bash"), *rest), {**added, **norc})


def _zsh(argv: tuple[str, ...], added: dict[str, str], env: Mapping[str, str]) -> Start | None:
    if "-f" in argv or "--no-rcs" in argv:
        return None  # it reads no start-up file
    hooks = str(_HERE / "zsh")
    own = env.get("ZDOTDIR", environment().get("ZDOTDIR", ""))
    return Start(argv, {**added, "PTYCTL_ZDOTDIR": own, "PTYCTL_HOOKS": hooks, "ZDOTDIR": hooks})


def _fish(argv: tuple[str, ...], added: dict[str, str], env: Mapping[str, str]) -> Start:
    return Start((*argv, "--init-command", f"source {_HERE / 'fish.fish'}"), added)


#: Names of shells, or their starts, that cannot keep a line out of their history.
_RECORDING_SHELLS = ("ksh", "busybox", "ash")
#: Options with which a shell reads other files, or a script.
_OTHER_USES = frozenset({"-c", "-l", "--login", "--posix", "--rcfile", "--init-file", "-s", "--restricted", "-r"})
_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
