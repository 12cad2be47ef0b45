"""Jump hosts as text: `[user@]host[:port]`, comma-separated, as in ssh -J and ProxyJump (ssh_config(5))."""

from __future__ import annotations

import re

from transports.errors import InvalidOption

from .options import Hop

#: The user may hold an @ of its own (mail addresses do), so it is everything up to the last one; an IPv6 address that is
#: followed by a port stands in brackets.
_HOP = re.compile(r"(?:ssh://)?(?:(?P<user>.+)@)?(?:\[(?P<bracketed>[^\[\]@]+)\]|(?P<host>[^\[\]@:]+))(?::(?P<port>\d+))?/?")
_BARE_IPV6 = re.compile(r"(?:(?P<user>.+)@)?(?P<host>[^\[\]@:/]*(?::[^\[\]@:/]*){2,})")


def parse_jump(text: str) -> tuple[Hop, ...]:
    """The hosts that `text` names, first one first; `none` is no host.

    Raises:
        InvalidOption: names the part that is no host.
    """
    if text.strip().lower() == "none":
        return ()
    return tuple(_parse_hop(part.strip()) for part in text.split(","))


def _parse_hop(text: str) -> Hop:
    match = _HOP.fullmatch(text) or _BARE_IPV6.fullmatch(text)
    if match is None:
        raise InvalidOption(f"jump host {text!r} is not [user@]host[:port]; separate several by commas")
    parts = match.groupdict()
    host = parts.get("bracketed") or parts["host"]
    port = parts.get("port")
    return Hop(host, int(port) if port else None, parts["user"])
