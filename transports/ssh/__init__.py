"""A terminal, or a plain channel, over SSH (RFC 4251 to 4254): options, jump hosts, host keys, and the channel itself."""

from .bastion import SshConnections
from .channel import SshChannel
from .jump import parse_jump
from .options import Auth, AuthMethod, Hop, HostKeyPolicy, HostKeys, SshOptions

__all__ = [
    "Auth",
    "AuthMethod",
    "Hop",
    "HostKeyPolicy",
    "HostKeys",
    "SshChannel",
    "SshConnections",
    "SshOptions",
    "parse_jump",
]
