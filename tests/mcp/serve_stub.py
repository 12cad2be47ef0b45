"""`ptyctl mcp` over the stub: python serve_stub.py TRANSPORT LISTEN TOOLSETS [TOKEN_FILE]."""

from __future__ import annotations

import sys
from pathlib import Path

from ptyctl.cli.mcp_server import McpTransport, run
from tests.mcp.stub_controller import StubController

if __name__ == "__main__":
    transport, listen, toolsets, *token_file = sys.argv[1:]
    sys.exit(run(McpTransport(transport), listen, toolsets, Path(token_file[0]) if token_file else None, StubController))  # type: ignore[arg-type]
