"""The Telnet byte channel: a Network Virtual Terminal over TCP (RFC 854, 855, 1143), in cleartext.

`channel` implements the channel interface on a `connection` (asyncio protocol). A connection passes received bytes to the
`parser`, which separates data from commands, and the commands to the option `negotiation`. May import only from `transports`
outside of `transports.ssh`. Start reading at `connection`.
"""

from .channel import TelnetChannel
from .connect_options import KEEPALIVE_S, Keepalive, LineEnding, TelnetConnectOptions

__all__ = ["KEEPALIVE_S", "Keepalive", "LineEnding", "TelnetChannel", "TelnetConnectOptions"]
