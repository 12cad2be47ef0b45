"""Byte channels to terminals: a local PTY, SSH, Telnet.

`channel` defines the interface, `receiver` the consumer of the received bytes, `errors` everything that a channel can raise.
The implementations are `local`, `ssh` and `telnet`. Start reading at `channel`.

The package runs on Linux and imports nothing from ptyctl; it can be used without it (docs/transports.md).
"""
