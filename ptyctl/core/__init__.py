"""Pure logic: bytes or values in, values out. No await, clock, file or socket; time is passed in.

Output: `normaliser.py` converts raw bytes to spool text, `spool.py` holds it, `search.py` matches patterns on it, `renderer.py`
produces readable text, `screen/` emulates a terminal, `sanitizer.py` protects viewers, `secret_masker.py` masks secrets and
their echo. `session_export.py` exports recordings. `control_sequences.py` defines the grammar that these modules share.

Commands: `marks.py` and `marker.py` (ends of commands in shells), `echo.py` (devices), `shells.py`. Sessions: `states.py`,
`lease.py`, `limits.py`. Access: `principal.py`. Input: `keys.py`, `unfinished_line.py`. Serialization: `json_lines.py`.

Imports only `ptyctl.api` for errors. Start with `normaliser.py` and `screen/model.py`.
"""
