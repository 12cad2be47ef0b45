"""A viewer of one terminal in a separate process: acknowledges all output, and draws nothing. Arguments: address, session."""

from __future__ import annotations

import asyncio
import json
import sys

from websockets.asyncio.client import connect

from ptyctl.web.stream.topics import HEADER


async def view(address: str, session_id: str) -> None:
    async with connect(f"ws://{address}/api/stream", compression=None, max_size=None) as connection:
        await connection.send(json.dumps({"op": "subscribe", "id": 1, "topic": f"terminal:{session_id}"}))
        print("ready", flush=True)
        async for message in connection:
            if isinstance(message, bytes):
                number, offset = HEADER.unpack_from(message)
                await connection.send(json.dumps({"op": "ack", "id": number, "offset": offset}))


if __name__ == "__main__":
    asyncio.run(view(*sys.argv[1:]))
