"""The Telnet byte channel: a Network Virtual Terminal over TCP (RFC 854, 855, 1143), in cleartext."""

from .channel import TelnetChannel
from .options import KEEPALIVE_S, Keepalive, LineEnding, TelnetOptions

__all__ = ["KEEPALIVE_S", "Keepalive", "LineEnding", "TelnetChannel", "TelnetOptions"]
