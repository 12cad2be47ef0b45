"""One terminal session: its channel, output, input, lock, commands and files.

    calls             operations on a session, one module each: read, write, exec, expect, lock, search, screen queries ...
    session.py        Session, which owns the components below; next to it its usage, notices, audit rows (activity.py) and
                      stored leases (lease_record.py)
    authorization.py  what the policy judges, and when; next to it what it judges by (judgement.py, input_places.py, far_end.py,
                      foreground_reader.py, line_reader.py, line_synchronisation.py), and what follows from a verdict
                      (enforcement.py, refusals.py, approvals.py)
    screen            the rendered screen, computed from the output on demand
    runs              commands from start to end: completion strategies, blocks, block events
    device            the CLI engine: prompts, echo, pagers, questions, login, mode changes
    io                the output stream, the input gate, signals and waits
    transcript        the files on disk, and their recovery after a crash
    clients.py        who uses the sessions; also spec.py, clock.py, and verdict_thread.py, in which long texts are judged

An entry imports only entries below it in this list; `screen` and `runs` do not import each other. Start with `session.py`;
for one operation, start with its module in `calls`.
"""
