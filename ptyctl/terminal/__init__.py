"""The interactive terminal contract: one tool, `memory_terminal_interactive`, on the sessions of a Controller.

`service.py` serves a request from validation to response. The tables of the contract are pure data: `aliases.py` (legacy
actions), `errors.py` (codes and fallbacks), `request.py` (fields and rules), `runtime_mode.py` (which adapter). `response.py`
builds responses, `controller_errors.py` maps ptyctl's errors. Imports `api` and `internal_error`; the interfaces above provide
the Controller and the environment.
"""
