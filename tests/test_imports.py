"""The import graph has no cycle, imports for type checking included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in ("ptyctl", "transports")
    for path in (ROOT / package).rglob("*.py")
}


def imported_names(module: str, path: Path) -> Iterator[str]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def imported_modules(module: str) -> set[str]:
    names = set(imported_names(module, MODULES[module]))
    modules = {name if name in MODULES else name.rpartition(".")[0] for name in names}
    return {name for name in modules if name in MODULES and name != module}


def test_import_graph_has_no_cycle() -> None:
    order = TopologicalSorter({module: imported_modules(module) for module in MODULES}).static_order()
    assert set(order) >= set(MODULES)


def test_import_graph_finds_relative_and_absolute_imports() -> None:
    assert {"ptyctl.session.io.gate", "ptyctl.session.runs.runs"} <= imported_modules("ptyctl.session.session")
    assert "ptyctl.session.io.signal" in imported_modules("ptyctl.session.io.gate")
