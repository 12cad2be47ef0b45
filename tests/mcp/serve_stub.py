"""`ptyctl mcp` over the stub: python serve_stub.py TRANSPORT LISTEN TOOLSETS [TOKEN_FILE]."""

from __future__ import annotations

import sys
from pathlib import Path

from ptyctl.cli.mcp_server import McpTransport, run
from tests.mcp.stub_controller import StubController


def serve(transport: str, listen: str, toolsets: str, *token_file: str) -> int:
    return run(McpTransport(transport), listen, toolsets, Path(token_file[0]) if token_file else None, StubController)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(serve(*sys.argv[1:]))
