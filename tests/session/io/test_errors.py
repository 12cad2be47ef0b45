"""Translation of errors of the operating system and of channels to API errors."""

from __future__ import annotations

import errno
import os

import pytest

from ptyctl.api.errors import ErrorCode
from ptyctl.session.io.errors import from_channel, from_os_error
from transports.errors import ChannelBroken


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)), ErrorCode.REMOTE_CLOSED),
        (OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)), ErrorCode.REMOTE_CLOSED),
        (OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), "/net/state/meta.json"), ErrorCode.IO_ERROR),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), ErrorCode.IO_ERROR),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), ErrorCode.LIMIT_EXCEEDED),
    ],
)
def test_os_error_has_the_code_of_what_failed(error: OSError, code: ErrorCode) -> None:
    translated = from_os_error(error)
    assert translated.code is code
    assert ("file" in translated.message) == (code is not ErrorCode.REMOTE_CLOSED)
    assert os.strerror(error.errno or 0) in translated.message


def test_broken_channel_is_remote_closed() -> None:
    assert from_channel(ChannelBroken("the connection broke: Connection timed out")).code is ErrorCode.REMOTE_CLOSED
