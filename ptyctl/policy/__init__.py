"""What may be typed: policy files, canonical forms of commands, and verdicts. Pure: text in, verdict out.

Start with `rules.py`, the model of a rule, a request and a verdict. `policy_file.py` reads policy files and checks their
examples, `device_command.py` finds the commands in a line for a device, `shell_command.py` those in a text for a shell,
and `shell_runners.py` those that a command runs, such as sudo or an editor; `evaluate.py` compares them with the rules.
`pending_line.py` follows a line that is typed key by key. `presets/` has the policies of the package.
The package imports `ptyctl.api`, `ptyctl.core` and `ptyctl.platforms` only.
"""
