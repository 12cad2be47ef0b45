"""The MCP interface: translates tool calls into Controller calls, over stdio and streamable HTTP.

`toolsets` declares the tools, `server` lists and dispatches them, `tool_call` performs one call. `stdio` and `http` are the
transports.

May import http, api, core and the MCP SDK. This file imports nothing: the SDK takes half a second to load, and commands that
do not serve MCP must start fast. Start reading at `server`.
"""
