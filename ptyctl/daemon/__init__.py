"""One daemon for each user: it owns all sessions, and agents, people and scripts come and go.

What a client needs before it knows whether a daemon is up (place, hello, starting, shim) is of the standard library alone, and
quickly imported.
"""
