"""Runtime adapters: the ways to reach the Controller that serves a request of the contract.

`base.py` has the interface, the adapter of the server's own Controller, and the Controller on an adapter; `runtimes.py` chooses
the adapter of a request and keeps its connection.
"""
