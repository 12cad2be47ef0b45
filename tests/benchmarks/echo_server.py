"""The least an MCP server can do, with the same SDK: one tool that gives back what it got, on stdio."""

from __future__ import annotations

from mcp.server import MCPServer
from pydantic import BaseModel


class Echo(BaseModel):
    text: str


server = MCPServer("echo")


@server.tool()
async def echo(text: str) -> Echo:
    """Gives the text back."""
    return Echo(text=text)


if __name__ == "__main__":
    server.run()
