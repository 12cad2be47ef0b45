"""The Telnet byte channel: a Network Virtual Terminal over TCP (RFC 854, 855, 1143), in cleartext."""

from .channel import TelnetChannel
from .options import LineEnding, TelnetOptions

__all__ = ["LineEnding", "TelnetChannel", "TelnetOptions"]
