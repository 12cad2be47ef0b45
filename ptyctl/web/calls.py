"""`POST /api/call/METHOD`: a call of the Controller with its request as JSON, by the same table as the daemon's RPC."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.api.methods import METHODS
from ptyctl.cancellation import cancel_and_wait
from ptyctl.core import json_lines
from ptyctl.internal_error import internal_error

from .errors import RefusedError, json_response

#: How long a client may take to send the body of a call (seconds).
BODY_TIMEOUT_S = 60.0
#: Header with the time after which a call is not carried out (epoch ms): a person who waited in vain does not expect it then.
NOT_AFTER = "X-Ptyctl-Not-After"


async def call(request: Request, controller: Controller) -> Response:
    """Perform the call of a request. It is cancelled if the client disconnects.

    Raises:
        PtyctlError
    """
    name = request.path_params["method"]
    if name not in METHODS:
        raise PtyctlError(ErrorCode.NOT_FOUND, f"no method {name[:100]}")
    arguments = await read_json(request, json_lines.MAX_LINE_BYTES, BODY_TIMEOUT_S)
    _check_in_time(request)
    calling = asyncio.create_task(_perform(name, arguments, controller))
    leaving = asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait((calling, leaving), return_when=asyncio.FIRST_COMPLETED)
        return json_response(calling.result()) if calling.done() else Response(status_code=503)
    finally:
        await cancel_and_wait(calling, leaving)


def _check_in_time(request: Request) -> None:
    """Raise PtyctlError IO_ERROR if the limit of the caller has passed, INVALID_ARGUMENT if it is not a number."""
    limit = request.headers.get(NOT_AFTER)
    if limit is None:
        return
    if not (limit.isascii() and limit.isdigit() and len(limit) < 20):
        raise invalid(f"{NOT_AFTER} is not a time in milliseconds")
    if (late_ms := int(time.time() * 1000) - int(limit)) > 0:
        message = f"the call arrived {late_ms} ms after its time limit, and was not carried out"
        raise PtyctlError(ErrorCode.IO_ERROR, message, {"reason": "late"}, hint="look at the present state, then do it again")


async def read_json(request: Request, limit: int, timeout_s: float) -> Any:
    """Return the body of a request. Raises RefusedError (408, 413), INVALID_ARGUMENT."""
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            with suppress(ClientDisconnect):  # the response is lost too
                async for part in request.stream():
                    body += part
                    if len(body) > limit:
                        raise _bad_body(413, f"the body has more than {limit} bytes")
    except TimeoutError:
        raise _bad_body(408, f"the body was not received within {timeout_s:g} s") from None
    try:
        return json_lines.decode_request(bytes(body))
    except json_lines.LongStructureError as error:
        raise RefusedError(413, ErrorCode.INVALID_ARGUMENT, str(error)) from None
    except ValueError:
        raise invalid("the body is not JSON, or is nested too deeply") from None


def _bad_body(status: int, message: str) -> RefusedError:
    return RefusedError(status, ErrorCode.INVALID_ARGUMENT, message, headers={"Connection": "close"})


async def _perform(name: str, arguments: Any, controller: Controller) -> dict[str, Any]:
    method = METHODS[name]
    try:
        reply = await method.call(controller, method.request.of(arguments), None)
        return reply.payload()
    except PtyctlError:
        raise
    except Exception as error:  # noqa: BLE001 - the exception's text may hold a secret
        raise internal_error(name, error) from None


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
