"""The screen of a session, replayed from its output on demand, its recording, and replies to terminal queries.

Imports `io`, `transcript` and `core`. Start with `display.py`, then `screen.py`.
"""
