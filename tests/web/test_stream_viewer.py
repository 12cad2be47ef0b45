"""The flow control of one viewer: windows, offsets at which it can resume, and frames."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.sanitizer import TerminalSanitizer
from ptyctl.web.stream.topics import HEADER, WINDOW_BYTES, Viewer
from tests.core.test_sanitizer import STREAMS


def unpacked(frame: bytes) -> tuple[int, int, bytes]:
    number, offset = HEADER.unpack_from(frame)
    return number, offset, frame[HEADER.size :]


def test_begin_with_painting_is_a_frame_at_its_offset() -> None:
    frame = Viewer(7).begin(1 << 40, b"painted")
    assert frame is not None
    assert frame[:12] == b"\0\0\0\7" + (1 << 40).to_bytes(8, "big")
    assert unpacked(frame) == (7, 1 << 40, b"painted")


def test_resume_sends_no_frame() -> None:
    assert Viewer(7).begin(5) is None


def test_output_waits_for_acknowledgement_of_window() -> None:
    viewer = Viewer(1)
    viewer.begin(100)
    viewer.output(100 + WINDOW_BYTES - 1, b"x" * (WINDOW_BYTES - 1))
    assert not viewer.must_wait
    viewer.output(100 + WINDOW_BYTES, b"x")
    assert viewer.must_wait
    viewer.acknowledge(50)  # of an earlier screen
    assert viewer.must_wait
    viewer.acknowledge(101)
    assert not viewer.must_wait
    viewer.output(102 + WINDOW_BYTES, b"xx")
    viewer.acknowledge(1 << 60)  # never sent
    assert not viewer.must_wait
    viewer.output(102 + 2 * WINDOW_BYTES, b"x" * WINDOW_BYTES)
    assert viewer.must_wait


@given(STREAMS, st.lists(st.integers(0, 400), max_size=8), st.data())
def test_viewer_that_resumes_at_any_frame_gets_same_bytes(stream: bytes, cuts: list[int], data: st.DataObject) -> None:
    """At every offset of a frame, a viewer that continues there gets what one that stayed connected gets."""
    ends = sorted({min(cut, len(stream)) for cut in cuts} | {len(stream)})
    whole = TerminalSanitizer().feed(stream)
    received = b""
    viewer = Viewer(1)
    viewer.begin(0)
    at = 0
    for end in ends:
        frame = viewer.output(end, stream[at:end])
        at = end
        if frame is None:
            continue
        received += unpacked(frame)[2]
        if data.draw(st.booleans()):
            at = unpacked(frame)[1]
            viewer = Viewer(1)
            viewer.begin(at)
    rest = viewer.output(len(stream), stream[at:])
    assert received + (unpacked(rest)[2] if rest else b"") == whole
