"""Rules of the repository: exact `__all__`, no machine-specific names, no blocking call in an event loop."""

from __future__ import annotations

import ast
import asyncio
import gc
import importlib
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptyctl.api import ErrorCode
from transports import errors as transport_errors

ROOT = Path(__file__).parent.parent
PRODUCT = sorted(path for package in ("ptyctl", "transports") for path in (ROOT / package).rglob("*.py"))
TEXT_SUFFIXES = {"", ".py", ".md", ".toml", ".yaml", ".yml", ".json", ".txt", ".sh", ".cfg"}
IGNORED = {".git", ".venv", "build", "dist", "__pycache__", ".hypothesis"}

#: The patterns are split, so that this file does not match them.
FORBIDDEN = {
    "path of one machine": re.compile(r"(?<![\w.])/(?:work|root|home/\w+|Users/\w+)/\w"),
    "host of a package registry": re.compile(
        "|".join(["py" + r"pi\.org", "python" + r"hosted\.org", r"deb\.debian" + r"\.org"])
    ),
}


def tree_of(path: Path) -> ast.Module:
    # Python 3.11 counts the parse depth per interpreter. A garbage collection during a parse can print a ResourceWarning, which
    # parses the source of its traceback, and the outer parse then fails with a SystemError.
    gc.disable()
    try:
        return ast.parse(path.read_text(), filename=str(path))
    finally:
        gc.enable()


def own_statements(path: Path) -> Iterator[ast.stmt]:
    """Yield top-level statements, including those under `if TYPE_CHECKING`, which name lazily imported objects."""
    for node in tree_of(path).body:
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from node.body


def public_names(path: Path) -> set[str]:
    """Return the public names that a module defines, and for a package those that it imports from its own modules."""
    names: set[str] = set()
    for node in own_statements(path):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom) and node.level and path.name == "__init__.py":
            names.update(alias.asname or alias.name for alias in node.names)
    return {name for name in names if not name.startswith("_")}


def dunder_all(path: Path) -> list[str] | None:
    """Return the literal `__all__` of a module, or None."""
    for node in tree_of(path).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value))
    return None


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def text_files() -> Iterator[Path]:
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name not in IGNORED and "_cache" not in name)
        texts = sorted(name for name in files if name not in IGNORED and Path(name).suffix in TEXT_SUFFIXES)
        yield from (Path(folder, name) for name in texts)


def test_dunder_all_lists_exactly_the_public_names() -> None:
    exporting = {path: exported for path in PRODUCT if (exported := dunder_all(path)) is not None}
    assert exporting
    for path, exported in exporting.items():
        assert len(exported) == len(set(exported)), path
        assert {name for name in exported if not name.startswith("__")} == public_names(path), path
        module = importlib.import_module(module_name(path))
        assert [name for name in exported if not hasattr(module, name)] == [], path


def test_channel_errors_all_have_a_code_of_the_tools() -> None:
    def subclasses(kind: type[transport_errors.ChannelError]) -> set[type[transport_errors.ChannelError]]:
        return {kind}.union(*map(subclasses, kind.__subclasses__()))

    unknown = {
        kind.__name__: kind.code for kind in subclasses(transport_errors.ChannelError) if kind.code not in set(ErrorCode)
    }
    assert unknown == {}


def test_repository_contains_no_machine_specific_name() -> None:
    texts = {path: path.read_text(errors="replace") for path in text_files()}
    assert PRODUCT[0] in texts
    found = [
        f"{path.relative_to(ROOT)}:{number}: {what}: {line.strip()[:80]}"
        for path, text in texts.items()
        for what, pattern in FORBIDDEN.items()
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


async def test_blocking_call_in_an_event_loop_fails() -> None:
    with pytest.raises(AssertionError, match="blocks the event loop"):
        time.sleep(0)  # noqa: ASYNC251
    with pytest.raises(AssertionError, match="blocks the event loop"):
        socket.create_connection(("127.0.0.1", 1))
    await asyncio.to_thread(time.sleep, 0)


def test_blocking_call_outside_an_event_loop_succeeds() -> None:
    time.sleep(0)


def test_machine_path_pattern_matches_paths_only() -> None:
    pattern = FORBIDDEN["path of one machine"]
    assert pattern.search("see /" + "home/jo/x")
    assert pattern.search('"/' + 'work/main/x"')
    assert not pattern.search("teamwork/main")
    assert not pattern.search("~/.ssh/root/x")
