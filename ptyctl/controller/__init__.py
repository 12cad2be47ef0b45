"""The session controller: opens, finds, lists, restores and closes sessions, and serves every request on them.

Start with `local.LocalController`, which implements `ptyctl.api.controller.Controller` and composes the other modules:

- `registry`: the sessions of this process, by id, console device and conversation; the session limit.
- `destinations`, `session_factory`: from an open request to a connected session, which is connected again if it is lost; which
  routes to devices are hidden.
- `session_actions`, `conversations`: the requests on sessions and on conversation terminals.
- `recovery`: sessions of earlier processes, programs that outlive a crash, the lock of the state directory.
- `call_memory`: calls that are performed once although they are repeated, and their file.
- `access`: what the principal of a request may do; servers give their clients this controller. `tokens`: those of HTTP clients.
- `devices`: the devices of the inventory, and the check of the connection to one of them.
- `retention`, `settings`: removal of old transcripts, the server's settings.

Imports `inventory`, `session`, `platforms`, `core`, `api` and `transports`; the interfaces (`cli`, `daemon`, `mcp`) import it.
"""
