"""stderr of a session that keeps it apart from stdout: a session without a terminal (`execution.pty: false`)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ptyctl.core.secret_masker import SecretMasker
from ptyctl.core.spool import whole_characters, whole_line_ends
from ptyctl.session.transcript.append_file import AppendFile
from transports.errors import ChannelError
from transports.receiver import Receiver

#: stderr takes at most this part of the session's quota.
QUOTA_SHARE = 4
_BUFFER_BYTES = 64 * 1024


class ErrorOutput(Receiver):
    """The stderr output in the file `stderr.raw`, with secrets masked. Bytes beyond the file's largest size are dropped.

    Attributes:
        size: number of bytes received.
        last_data: when the last byte arrived, on the loop's clock.
    """

    def __init__(self, folder: Path, quota_bytes: int) -> None:
        self._file = AppendFile(folder / "stderr.raw", quota_bytes // QUOTA_SHARE)
        self._masking = SecretMasker()
        self._buffer = bytearray(_BUFFER_BYTES)
        self._loop = asyncio.get_running_loop()
        self.size = self._file.size
        self.last_data = 0.0
        self._run_begin = 0
        self._run = ""

    def mask_typed(self, secret: bytes) -> None:
        """Mask a secret that is being typed."""
        self._masking.arm(secret, self._loop.time())

    def run_begun(self, block_id: str) -> None:
        """Assign all further output to the command of this block."""
        self._run, self._run_begin = block_id, self.size

    def text(self, block_id: str, limit: int, *, ended: bool) -> tuple[str, int]:
        """Return the output of the last command, and the number of omitted or dropped bytes.

        That of an earlier command is empty. Unless it has `ended`, an incomplete character at the end is left for later.
        """
        if self._run and block_id != self._run:
            return "", 0
        self._append(self._masking.flush())
        kept = self._file.size_with_batch
        begin, lost = min(self._run_begin, kept), self.size - kept
        if kept - begin <= limit:
            data = self._file.read(begin, kept)
            return data[: len(data) if ended else whole_characters(data)].decode("utf-8", "replace"), lost
        note = f"[... {kept - begin} bytes: the middle is left out here ...]\n"
        half = (limit - len(note)) // 2
        head, tail = whole_line_ends(self._file.read(begin, begin + half), self._file.read(kept - half, kept))
        omitted = kept - begin - len(head) - len(tail)
        return f"{head.decode('utf-8', 'replace')}{note}{tail.decode('utf-8', 'replace')}", omitted + lost

    def get_buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.last_data = self._loop.time()
        data = bytes(memoryview(self._buffer)[:nbytes])
        self._append(self._masking.feed(data, self._loop.time()) if self._masking.armed else data)

    def channel_ended(self, reason: ChannelError) -> None:
        return

    def close(self) -> None:
        """Write everything and close the file; `text` still works."""
        self._append(self._masking.flush())
        self._file.close()

    def _append(self, data: bytes) -> None:
        self.size += len(data)
        self._file.append(data)
