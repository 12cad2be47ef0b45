"""Connections of reverse proxies: which are accepted, and whom they are for."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from .access import Network

_Ip = ipaddress.IPv4Address | ipaddress.IPv6Address


def behind_proxies(app: ASGIApp, proxies: Sequence[Network]) -> ASGIApp:
    """Return an application that serves the proxies and this machine only. The client of a request is the proxy's client.

    A connection from elsewhere may be unencrypted, and is refused.
    """

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        peer = _parse(scope["client"][0])
        if peer is not None and _is_in(peer, proxies):
            client = _forwarded_for(Headers(scope=scope), proxies) or peer
            await app({**scope, "client": (str(client), 0)}, receive, send)
        elif peer is not None and peer.is_loopback:
            await app(scope, receive, send)
        else:
            await PlainTextResponse("Connect through the proxy\n", 403, {"Connection": "close"})(scope, receive, send)

    return serve


def _forwarded_for(headers: Headers, proxies: Sequence[Network]) -> _Ip | None:
    """Return the last address of X-Forwarded-For that is not one of the proxies: each of them appends its client."""
    for text in reversed(",".join(headers.getlist("x-forwarded-for")).split(",")):
        address = _parse(text.strip())
        if address is None or not _is_in(address, proxies):
            return address
    return None


def _parse(text: str) -> _Ip | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address  # of an IPv4 client, if the server listens on ::


def _is_in(address: _Ip, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)
