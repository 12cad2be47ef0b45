"""docs/terminal.md: its table of the contract's rows has the tests that prove them.

`python -m tests.terminal.test_spec_rows` writes the table.
"""

from __future__ import annotations

import re
from pathlib import Path

from .spec_rows import proofs, render_table, rows

PAGE = Path(__file__).parents[2] / "docs" / "terminal.md"
PART = re.compile(r"(?<=<!-- rows: from tests/terminal/spec_rows.py -->\n)(.*?)(?=<!-- end -->)", re.S)


def test_table_of_the_page_is_that_of_the_tests() -> None:
    found = PART.search(PAGE.read_text())
    assert found is not None
    assert found[0].strip() == render_table().strip(), "write the table: python -m tests.terminal.test_spec_rows"


def test_ids_of_the_tests_name_rows_of_the_contract() -> None:
    assert set(proofs()) - set(rows()) == set()


def test_every_row_of_the_contract_has_a_test() -> None:
    assert set(rows()) - set(proofs()) == set()


if __name__ == "__main__":
    page = PAGE.read_text()
    PAGE.write_text(PART.sub(lambda _: f"\n{render_table()}\n\n", page))
