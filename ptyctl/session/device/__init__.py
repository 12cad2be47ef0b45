"""The CLI engine: prompt, echo, pager, log-line, question and dialogue handling at a device's command line.

`output_end.py` classifies the end of the output by a `DeviceProfile`; start there. `typed_line.py` follows a typed line to its
prompt and is driven by the runs. `exchange.py` types for the session itself and waits for an end that has settled; logins
(`login.py`, `login_dialog.py`), single commands (`device_cli.py`), mode changes and saving (`modes.py`) and
`platform_detection.py` use it. The package imports `ptyctl.platforms` and `ptyctl.session.io`.
"""
