"""What a session knows of its far end: a device with a platform, a shell, or a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ptyctl.platforms import DeviceProfile


@dataclass(frozen=True, slots=True)
class FarEnd:
    """Functions that return the current state: a platform may be detected, and a shell may begin to send marks.

    Attributes:
        platform: the name of the platform, None without one.
        is_device: whether the far end is a device rather than a POSIX shell.
        profile: the compiled platform.
        is_shell: whether a session without a platform has a POSIX shell.
        has_marks: whether the shell reports its prompts.
        is_running: whether a command of a run runs in it.
    """

    platform: Callable[[], str | None]
    is_device: Callable[[], bool]
    profile: Callable[[], DeviceProfile]
    is_shell: Callable[[], bool]
    has_marks: Callable[[], bool]
    is_running: Callable[[], bool]
