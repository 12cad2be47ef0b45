"""The calls on a session: one operation, or a family of operations, per module.

Imports the session and everything below it; the controller imports this package. Start with `exec.py`.
"""
