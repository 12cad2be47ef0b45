"""Errors as HTTP responses: `{"error": {error_code, message, hint?, details, retryable}}` with a status by the code."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core import json_lines
from ptyctl.http.bearer import TokenRefusedError

_STATUS = {
    ErrorCode.INVALID_ARGUMENT: 400,
    ErrorCode.UNSUPPORTED: 400,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.POLICY_DENIED: 403,
    ErrorCode.DECLINED: 403,
    ErrorCode.LIMIT_EXCEEDED: 429,
    ErrorCode.INTERNAL: 500,
}
#: The status of all other codes: the request is valid, and the session or the far end is not in the state for it.
_CONFLICT = 409
_NOT_LOGGED_IN = "not logged in, or the login has ended"
_LOGIN_HINT = "open the console with: ptyctl web; or log in with a token"


class RefusedError(PtyctlError):
    """A request that is refused before its call is made, with the HTTP status."""

    def __init__(
        self,
        status: int,
        code: ErrorCode,
        message: str,
        *,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code, message, hint=hint)
        self.status = status
        self.headers = headers


def not_logged_in() -> RefusedError:
    """Return the error of a request without a valid login."""
    return RefusedError(401, ErrorCode.AUTH_FAILED, _NOT_LOGGED_IN, hint=_LOGIN_HINT)


def token_refused(error: TokenRefusedError) -> RefusedError:
    """Return the error of a request with a token or a ticket that was refused."""
    if error.status == 429:
        return RefusedError(429, ErrorCode.LIMIT_EXCEEDED, str(error), hint="wait, or run: ptyctl web", headers=error.headers)
    return RefusedError(error.status, ErrorCode.AUTH_FAILED, _NOT_LOGGED_IN, hint=_LOGIN_HINT, headers=error.headers)


def error_response(error: PtyctlError) -> Response:
    """Return the response for an error."""
    if isinstance(error, RefusedError):
        return json_response({"error": error.payload()}, error.status, error.headers)
    return json_response({"error": error.payload()}, _STATUS.get(error.code, _CONFLICT))


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a JSON value."""
    return Response(json_lines.encode(value), status, headers, media_type="application/json")


async def on_error(_request: Request, error: Exception) -> Response:
    """Exception handler of the application for PtyctlError."""
    assert isinstance(error, PtyctlError)
    return error_response(error)
