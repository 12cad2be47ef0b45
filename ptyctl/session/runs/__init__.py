"""Runs: one command from start to end, its completion strategy, and its block on disk.

Imports `device`, `io`, `transcript`, `platforms` and `core`. Start with `runs.py`, then `strategy.py` and the strategies.
"""
