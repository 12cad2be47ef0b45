"""The chain of the audit log finds each row that was changed, removed or inserted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.audit.chain import ChainFault, Head, append, encode, verify

rows = st.lists(
    st.fixed_dictionaries({"event": st.text(max_size=5), "ts": st.integers(0, 9)}).map(encode), min_size=1, max_size=8
)


def split(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def fault_in(lines: list[bytes], head: Head | None) -> ChainFault | None:
    return verify([("2026-11.jsonl", lines)], head).fault


@given(rows)
def test_chain_as_written_fits(rows: list[bytes]) -> None:
    data, head = append(rows, Head())
    assert verify([("2026-11.jsonl", split(data))], head).fault is None
    assert verify([("2026-11.jsonl", split(data))], head).head == head


@given(rows, st.integers(0, 3))
def test_chain_in_several_files_fits(rows: list[bytes], cut: int) -> None:
    data, head = append(rows, Head())
    lines = split(data)
    assert verify([("2026-10.jsonl", lines[:cut]), ("2026-11.jsonl", lines[cut:])], head).fault is None


@given(rows, st.data())
def test_changed_byte_is_found(rows: list[bytes], data: st.DataObject) -> None:
    written, head = append(rows, Head())
    place = data.draw(st.integers(0, len(written) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != written[place]))
    changed = written[:place] + bytes((byte,)) + written[place + 1 :]
    assert fault_in(split(changed), head) is not None


@given(rows, st.data())
def test_removed_row_is_found(rows: list[bytes], data: st.DataObject) -> None:
    written, head = append(rows, Head())
    lines = split(written)
    del lines[data.draw(st.integers(0, len(lines) - 1))]
    assert fault_in(lines, head) is not None


@given(rows, st.data())
def test_inserted_row_is_found_even_if_it_fits_the_row_before(rows: list[bytes], data: st.DataObject) -> None:
    written, head = append(rows, Head())
    lines = split(written)
    place = data.draw(st.integers(0, len(lines)))
    _, before = append(rows[:place], Head())
    forged, _ = append([encode({"event": "forged"})], before)
    fault = fault_in([*lines[:place], forged, *lines[place:]], head)
    assert fault is not None
    assert fault.line in (place + 1, place + 2)


@given(rows)
def test_missing_head_is_found(rows: list[bytes]) -> None:
    written, _ = append(rows, Head())
    assert fault_in(split(written), None) is not None


def test_no_rows_fit_without_a_head() -> None:
    assert verify([], None).fault is None
