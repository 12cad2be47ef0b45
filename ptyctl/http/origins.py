"""The values of the Host and Origin headers that a server accepts.

The Host check stops DNS rebinding: a page whose host name was made to resolve to a loopback address. The Origin check stops
requests of other pages in the same browser.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

#: host[:port] of RFC 3986, section 3.2, without userinfo, which neither header allows.
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^:@/?#\[\]\s]+))(?::(?P<port>\d{1,5}))?")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_loopback(host: str) -> bool:
    """Return whether a host, as written in an option, a Host or an Origin header, is a loopback address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Origin(NamedTuple):
    """Scheme, host and port of a server (RFC 6454, section 4)."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the origin of `SCHEME://HOST[:PORT]`; None for any other text, such as `null`."""
        match = _ORIGIN.fullmatch(text)
        if match is None:
            return None
        scheme, host = match["scheme"], (match["v6"] or match["host"]).lower()
        return cls(scheme, host, int(match["port"] or _DEFAULT_PORTS[scheme]))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}")


@dataclass(frozen=True, slots=True)
class Origins:
    """The origins of a server: any port of a loopback address, as the local end of a tunnel has another one, and a public one.

    Attributes:
        public: where clients on other machines reach the server.
    """

    public: Origin | None = None

    def target(self, scheme: str, hosts: Sequence[str]) -> Origin | None:
        """Return the origin that a request was sent to, by the values of its Host header; None if it is not the server's."""
        if len(hosts) != 1:
            return None
        if self.public is not None and Origin.parse(f"{self.public.scheme}://{hosts[0]}") == self.public:
            return self.public
        found = Origin.parse(f"{scheme}://{hosts[0]}")
        return found if found is not None and is_loopback(found.host) else None

    def admits(self, origin: str) -> bool:
        """Return whether an Origin header names a page of the server's machine, of whatever port, or the public origin."""
        found = Origin.parse(origin)
        return found is not None and (found == self.public or is_loopback(found.host))
