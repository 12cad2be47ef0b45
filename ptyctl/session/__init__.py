"""One terminal session: its channel, output, input, lock, commands and files.

    calls         operations on a session, one module each: read, write, exec, expect, lock, search, screen queries ...
    session.py    Session, which owns the components below; next to it its spec, usage, notices and clock
    screen        the rendered screen, computed from the output on demand
    runs          commands from begin to end: completion strategies, blocks, block events
    device        the CLI engine: prompts, echo, pagers, questions, login, mode changes
    io            the output stream, the input gate, signals and waits
    transcript    the files on disk, and their recovery after a crash

A package imports only packages below it in this list; `screen` and `runs` do not import each other. Start with `session.py`;
for one operation, start with its module in `calls`.
"""
