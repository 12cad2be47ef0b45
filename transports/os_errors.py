"""Classification of operating-system errors of a connection attempt."""

from __future__ import annotations

import errno
import re

#: asyncio reports the errors of several addresses of a host in one text, without an error number.
_NUMBER = re.compile(r"\[Errno (\d+)\]")


def is_timeout(error: OSError) -> bool:
    """Return whether no address of the host has answered, by the operating system's own timeout (ETIMEDOUT, connect(2))."""
    if error.errno is not None:
        return error.errno == errno.ETIMEDOUT
    numbers = _NUMBER.findall(str(error))
    return bool(numbers) and all(int(number) == errno.ETIMEDOUT for number in numbers)
