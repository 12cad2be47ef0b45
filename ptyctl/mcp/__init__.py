"""The MCP door: translates tool calls into Controller calls and back, over stdio and streamable HTTP. It holds no logic.

Nothing is imported here: the MCP SDK takes half a second to load, and a command that serves nothing shall not wait for it.
"""
