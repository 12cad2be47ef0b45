"""Numbers of the claims on each console, which the fences of its leases begin with."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from ptyctl.api.errors import ErrorCode, PtyctlError

from .buckets import Bucket, ConflictError, Entry, encode_key
from .claim import MAX_NUMBER, first_number


class ClaimNumber(NamedTuple):
    """The number of a claim on a console, and whether the bucket has had no other one of that console."""

    value: int
    is_first: bool


class FenceCounter:
    """Numbers claims from the bucket `fences`, whose keys do not expire. Numbers of one console only grow."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    async def next(self, device_id: str) -> ClaimNumber:
        """Return the number of a new claim on a console, after the claim's key was created.

        A node that is paused in between can get a greater number than the next owner; its write deadline has passed then, and
        the numbers of later claims are greater than both.

        Raises:
            PtyctlError: IO_ERROR.
        """
        key = encode_key(device_id)
        while True:
            entry = await self._bucket.get(key)
            number = max(first_number(self._bucket.created_s), 0 if entry is None else _number(key, entry) + 1)
            value = str(number).encode()
            with suppress(ConflictError):
                if entry is None:
                    await self._bucket.create(key, value)
                else:
                    await self._bucket.update(key, value, entry.revision)
                return ClaimNumber(number, is_first=entry is None)


def _number(key: str, entry: Entry) -> int:
    text = entry.value
    if not text.isdigit() or len(text) > len(str(MAX_NUMBER)) or int(text) >= MAX_NUMBER:
        raise PtyctlError(
            ErrorCode.IO_ERROR,
            f"the key {key} of the bucket of fences holds no number of a claim",
            hint="find out which software wrote it; delete the bucket fences while no node is up: it is created again",
        )
    return int(text)
