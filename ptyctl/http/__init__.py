"""Common parts of the HTTP servers: listening socket, connection limits, tokens, rules for Host and Origin, and uvicorn.

`ptyctl.mcp` and `ptyctl.web` are the applications. `server` serves one or both of them on a socket; `access` reads the
options, `bearer` checks tokens and limits guesses, `origins` has the rules for pages, `listener` and `connection_limits`
protect the process.

May import controller and below. This file imports nothing: options are checked before uvicorn is imported. Start reading at
`server`.
"""
