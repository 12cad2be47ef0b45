"""The session controller: opens, finds, lists, restores and closes sessions, and serves every request on them.

Start with `local.LocalController`, which implements `ptyctl.api.controller.Controller` and composes the other modules:

- `registry`: the sessions of this process, by id, console device and conversation; the session limit.
- `destinations`: from an open request to its destination, and whether the route to a device is hidden.
- `session_factory`: from a destination to a connected session. `console_reconnector`: consoles whose connection was lost.
- `session_actions`, `conversations`: the requests on sessions and on conversation terminals.
- `recovery`: sessions of earlier processes, programs that outlive a crash, the lock of the state directory.
- `call_memory`: calls that are performed once although they are repeated, and their file.
- `access`: what the principal of a request may do; servers give their clients this controller. `tokens`: those of HTTP clients.
- `policies`: the policy in force. `policy_checks`: requests on it, and the program of an open request.
- `approvals`: the calls on approval requests, and their file.
- `devices`: the devices of the inventory, and the check of the connection to one of them.
- `search`: search in the commands and the output of all sessions.
- `retention`, `settings`: removal of old transcripts, the server's settings.

Imports `inventory`, `session`, `platforms`, `core`, `api` and `transports`; the interfaces (`cli`, `daemon`, `mcp`) import it.
"""
