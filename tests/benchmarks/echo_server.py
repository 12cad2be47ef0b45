"""A minimal MCP server on stdio with the same SDK: one tool that returns its argument."""

from __future__ import annotations

from mcp.server import MCPServer
from pydantic import BaseModel


class Echo(BaseModel):
    text: str


server = MCPServer("echo")


@server.tool()
async def echo(text: str) -> Echo:
    """Return the text."""
    return Echo(text=text)


if __name__ == "__main__":
    server.run()
