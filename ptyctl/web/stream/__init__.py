"""The WebSocket `/api/stream` of the web console: live terminals, the list of sessions, approval requests and thumbnails.

Start with `endpoint.serve_stream`, which reads a client's messages and runs a task for each subscription.

- `messages`: what a client sends.
- `topics`: what each kind of subscription sends; `Viewer` has the flow control and the frames of a terminal.
- `feeds`: what the subscribers of one principal share.

Imports `controller`, `session.clients`, `core` and `api`. The controller decides what the client may see.
"""
