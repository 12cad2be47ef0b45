"""What every HTTP request must show before it reaches the server: a Host and Origin of this machine, and the bearer token.

The SDK checks Host and Origin too, but answers a foreign Host with 421, and knows tokens only as part of OAuth.
"""

from __future__ import annotations

import hmac
import re

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from .access import is_loopback

#: host[:port] of RFC 3986, section 3.2, without userinfo: that belongs to neither header.
_AUTHORITY = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^:@/?#\[\]\s]+))(?::\d{1,5})?")
_ORIGIN = re.compile(r"https?://(?P<authority>.*)")
_BEARER = re.compile(r"bearer +(?P<token>\S+)", re.IGNORECASE)


class Guard:
    """ASGI middleware. A page in a browser that a foreign name led here (DNS rebinding) fails by its Host or Origin."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        answer = self._refusal(headers) or self._challenge(headers)
        await (answer or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not _is_ours(hosts[0]):
            return _forbidden("The Host is not this machine's: use http://127.0.0.1:PORT/mcp")
        for origin in headers.getlist("origin"):
            match = _ORIGIN.fullmatch(origin)
            if match is None or not _is_ours(match["authority"]):
                return _forbidden("Requests of pages from elsewhere are refused")
        return None

    def _challenge(self, headers: Headers) -> Response | None:
        """RFC 6750, section 3: no error code for a request that has no token, `invalid_token` for a wrong one."""
        given = headers.getlist("authorization")
        match = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
        if match is None:
            return _unauthorized("Send the header Authorization: Bearer TOKEN", 'Bearer realm="ptyctl"')
        if hmac.compare_digest(match["token"].encode("latin-1", "replace"), self._token):
            return None
        return _unauthorized("The token is not this server's", 'Bearer realm="ptyctl", error="invalid_token"')


def _is_ours(authority: str) -> bool:
    """Any port will do: a tunnel's near end has another one."""
    match = _AUTHORITY.fullmatch(authority)
    return match is not None and is_loopback(match["v6"] or match["host"])


def _forbidden(message: str) -> Response:
    return JSONResponse({"error": "forbidden", "message": message}, 403)


def _unauthorized(message: str, challenge: str) -> Response:
    return JSONResponse({"error": "unauthorized", "message": message}, 401, {"WWW-Authenticate": challenge})
