"""The files of a fleet's node fail, one operation after the other."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ptyctl.fleet.fleet_policy import sign_policy
from ptyctl.fleet.session_claims import _state_id
from tests.fleet.test_fleet_policy import Fleet, Node
from tests.session.file_faults import FileFaults, intercept

OPERATIONS = 20
ERRORS = pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EMFILE], ids=errno.errorcode.get)


@ERRORS
@pytest.mark.parametrize("lasting", [False, True])
def test_node_has_the_old_or_the_new_policy_after_a_failed_operation(tmp_path: Path, error: int, lasting: bool) -> None:
    fleet = Fleet(tmp_path / "fleet")
    one, two, three = (sign_policy(text, number, fleet.admin) for number, text in enumerate(("one", "two", "three"), start=1))
    for first in range(OPERATIONS):
        node, faults = Node(tmp_path / f"state-{first}", fleet.ca), FileFaults(first, error, lasting)
        assert node.receive(one) is None
        with intercept(faults.perform, node.folder):
            problem = node.receive(two)
        again = Node(node.folder, fleet.ca)
        again.policy.restore()
        assert again.in_force in (("two",) if problem is None else ("one", "two")), faults.failed
        assert node.receive(three) is None
        if faults.count <= first:
            return
    pytest.fail(f"more than {OPERATIONS} operations")


@ERRORS
def test_id_of_a_state_directory_is_stored_before_it_is_used(tmp_path: Path, error: int) -> None:
    for first in range(OPERATIONS):
        path, faults = tmp_path / str(first) / "id", FileFaults(first, error)
        path.parent.mkdir()
        used = None
        with intercept(faults.perform, path.parent):
            try:
                used = _state_id(path)
            except OSError:
                assert faults.failed
        assert used in (None, _state_id(path))
        assert _state_id(path) == _state_id(path)
        if faults.count <= first:
            return
    pytest.fail(f"more than {OPERATIONS} operations")
