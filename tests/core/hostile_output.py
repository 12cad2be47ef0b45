"""Output of a far end that wants to be as expensive as possible: control functions with large parameters, in any order."""

from __future__ import annotations

from hypothesis import strategies as st

_FINALS = "@ABCDEFGHIJKLMPSTXZ`abdefghlnrsu"
_PRIVATE = ["", "?", ">", "!"]
_INTERMEDIATES = ["", " ", "$", "*", "'", '"', "#"]
_NUMBERS = ["", "0", "1", "2", "9", "80", "999999", "99999999999"]
_PLAIN = ["a", "line\n", "\n", "\r", "\b", "\t", "\v", "\x0e", "日", "e\u0301", "\U0001f469\u200d", " " * 20]
_ESCAPES = ["\x1b7", "\x1b8", "\x1bD", "\x1bM", "\x1bE", "\x1bc", "\x1b#8", "\x1b(0", "\x1b[?1049h", "\x1b[?1049l", "\x1b[4h"]

_csi = st.builds(
    "\x1b[{}{}{}{}".format,
    st.sampled_from(_PRIVATE),
    st.lists(st.sampled_from(_NUMBERS), max_size=3).map(";".join),
    st.sampled_from(_INTERMEDIATES),
    st.sampled_from(_FINALS + "pqtvxyz{}~"),
)
_unit = st.lists(st.sampled_from(_PLAIN) | st.sampled_from(_ESCAPES) | _csi, min_size=1, max_size=6).map("".join)


def hostile_output(size: int) -> st.SearchStrategy[bytes]:
    """Return output of about `size` bytes: lines of text, and then a few units, the last one repeated."""
    return st.builds(
        lambda lines, units, last: b"line\r\n" * lines + "".join(units).encode() + last.encode() * (size // len(last.encode())),
        st.sampled_from([0, 1, 40, 400]),
        st.lists(_unit, max_size=4),
        _unit,
    )
