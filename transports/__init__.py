"""Byte channels to terminals: local PTY, SSH, Telnet. This package knows nothing of ptyctl."""
