"""The interactive terminal contract: one tool, `memory_terminal_interactive`, on the sessions of a Controller.

`service.py` serves a request from validation to response. The tables of the contract are pure data: `aliases.py` (legacy
actions), `errors.py` (codes, fallbacks, the code of each ptyctl error), `request.py` (fields and rules), `runtime_mode.py`
(which adapter). `response.py` builds responses. `adapters/` reaches the Controller that serves a request; it remembers the
calls of requests that may be repeated (`ptyctl.controller.call_memory`).
Imports `api`, `core`, `internal_error` and that module; the interfaces above provide the server's own Controller and the
environment.
"""
