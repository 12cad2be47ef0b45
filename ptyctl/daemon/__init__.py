"""The daemon: one process per user that owns all sessions and serves clients over a Unix socket.

`server` runs in the daemon, `client.RemoteController` in its clients; both speak `rpc`. `fd_store` keeps PTYs open across a
crash. `runtime_dir`, `connection`, `control` and `shim` import only the standard library and `core.json_lines`, because
`ptyctl mcp` and `ptyctl sessions` must start fast.

May import api, core, controller, mcp and transports. Start reading at `main`.
"""
