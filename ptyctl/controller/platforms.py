"""The device families that can be named in `open`. Their data files come with the network platforms."""

from __future__ import annotations

from ptyctl.api.errors import unsupported

#: `linux` is a POSIX shell also on a console; `generic` is a command line with a prompt and nothing else that is known.
PLATFORMS = ("generic", "linux")


def check_platform(name: str | None) -> None:
    """Raises PtyctlError UNSUPPORTED, listing what there is."""
    if name is not None and name not in PLATFORMS:
        raise unsupported(f"platform {name!r} is not known here; use {' or '.join(PLATFORMS)}, and expect for its patterns")
