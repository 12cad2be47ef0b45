"""A terminal, or a channel without one, over SSH (RFC 4251 to 4254), built on asyncssh.

- `channel`: the implementation of the channel interface; start reading here
- `connect_options`: the parameters, and the text form of jump hosts
- `endpoint`: the route to the target after applying the OpenSSH configuration
- `host_settings`: the configuration of one host, from `ssh -G` or from `openssh_config`, our reader; `programs`: runs them
- `bastion`: the connections to jump hosts that several sessions share
- `connection`: one SSH connection, direct or through a jump host; `attempt`: the asyncssh callbacks during the connect
- `host_keys`: the host key check; `known_hosts`: the lines of the files
- `login_keys`: the user's keys; `algorithms`: what is offered
- `errors`: the translation of exceptions

May import from `transports`, but not from its other channels.
"""

from .bastion import SshConnectionPool
from .channel import SshChannel
from .connect_options import (
    AuthMethod,
    HostKeyOptions,
    HostKeyPolicy,
    SshAuth,
    SshConnectOptions,
    SshJumpHost,
    parse_jump_hosts,
)

__all__ = [
    "AuthMethod",
    "HostKeyOptions",
    "HostKeyPolicy",
    "SshAuth",
    "SshChannel",
    "SshConnectOptions",
    "SshConnectionPool",
    "SshJumpHost",
    "parse_jump_hosts",
]
