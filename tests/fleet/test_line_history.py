"""The checker of a console's history finds each kind of fault."""

from __future__ import annotations

import pytest

from tests.fleet.line_history import Granted, Typed, Written, find_faults

TYPED = [Typed("a.1", 0), Typed("a.2", 0), Typed("b.1", 1), Typed("b.2", 1), Typed("a.3", 2)]
WRITTEN = [
    Written("a.1", 5, "acknowledged", 1.1, 1.2),
    Written("a.2", 5, "acknowledged", 1.3, 1.4),
    Written("b.1", 9, "acknowledged", 2.1, 2.2),
    Written("b.2", 9, "unknown", 2.3, 2.4),
    Written("b.3", 9, "refused", 2.5, 2.6),
    Written("a.3", 12, "acknowledged", 3.1, 3.2),
]
GRANTED = [Granted("a", 5, 0.0, 1.0), Granted("b", 9, 1.5, 2.0), Granted("a", 12, 2.7, 3.0)]


def test_correct_history_has_no_faults() -> None:
    assert find_faults(TYPED, WRITTEN, GRANTED, has_all_writes=True) == []


@pytest.mark.parametrize(
    ("typed", "written", "granted", "fault"),
    [
        ([Typed("b.4", 1)], [Written("b.4", 9, "unknown")], [], "b.4 of connection 1 was typed after connection 2 had begun"),
        ([Typed("a.3", 2)], [], [], "a.3 was typed 2 times"),
        ([], [Written("a.4", 12)], [], "a.4 was acknowledged and not typed"),
        ([Typed("b.3", 2)], [], [], "b.3 was refused and typed"),
        ([Typed("c.1", 2)], [], [], "c.1 was typed by nobody"),
        ([Typed("a.4", 2)], [Written("a.4", 8)], [], "a.4 has the fence 8 after 12"),
        ([Typed("a.4", 3)], [Written("a.4", 12)], [], "a.4 has the fence 12 after 12"),
        ([Typed("c.1", 2)], [Written("c.1", 12)], [], "the fence 12 is that of a and of c"),
        ([], [], [Granted("c", 12, 3.5, 4.0)], "the fence 12 is that of a and of c"),
        ([], [], [Granted("c", 11, 3.5, 4.0)], "c was granted the fence 11 after 12 of a"),
        (
            [Typed("b.5", 2)],
            [Written("b.5", 9, "acknowledged", 3.5, 3.6)],
            [],
            "b.5 was written with the fence 9 after a was granted 12",
        ),
    ],
)
def test_planted_fault_is_found(typed: list[Typed], written: list[Written], granted: list[Granted], fault: str) -> None:
    faults = find_faults([*TYPED, *typed], [*WRITTEN, *written], [*GRANTED, *granted], has_all_writes=True)
    assert fault in faults


#: What the console and the calls show if the fleet has an error: tokens, fences of the writes, granted locks, and the fault.
PLANTED = {
    "a claim is taken while its lease is in force": (
        [Typed("a.1", 0), Typed("b.1", 1), Typed("a.2", 0)],
        [Written("a.1", 5), Written("b.1", 9), Written("a.2", 5)],
        [],
        "a.2 of connection 0 was typed after connection 1 had begun",
    ),
    "a lease is continued after its expiry": (
        [Typed("a.1", 0), Typed("b.1", 1)],
        [
            Written("a.1", 5, "acknowledged", 0.1, 0.2),
            Written("b.1", 9, "acknowledged", 2.1, 2.2),
            Written("a.2", 5, "acknowledged", 3.1, 3.2),
        ],
        [Granted("a", 5, 0.0, 0.1), Granted("b", 9, 1.5, 2.0)],
        "a.2 was written with the fence 5 after b was granted 9",
    ),
    "a claim is kept after another owner had it": (
        [Typed("a.1", 0), Typed("b.1", 1), Typed("a.2", 2)],
        [Written("a.1", 5), Written("b.1", 9), Written("a.2", 5)],
        [],
        "a.2 has the fence 5 after 9",
    ),
    "a number is lower after a release": (
        [Typed("a.1", 0), Typed("b.1", 1)],
        [Written("a.1", 5), Written("b.1", 4)],
        [Granted("a", 5, 0.0, 0.1), Granted("b", 4, 1.5, 2.0)],
        "b was granted the fence 4 after 5 of a",
    ),
}


@pytest.mark.parametrize("error", PLANTED)
def test_planted_error_of_a_fleet_is_found(error: str) -> None:
    typed, written, granted, fault = PLANTED[error]
    assert fault in find_faults(typed, written, granted, has_all_writes=True)
