"""A session's input and output: the output stream, the gate that all input passes, and waiting on both.

Imports only `transcript`, `core`, `api` and `transports`. Start with `output_stream.py`, then `gate.py`.
"""
