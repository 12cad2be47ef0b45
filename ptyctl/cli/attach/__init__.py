"""`ptyctl attach`: a session in this terminal.

`client.py` connects to the daemon and its successors, and `attachment.py` joins the parts: the lease, the keyboard, the local
terminal and the status row. The screen is drawn from a model of the session's screen (`ptyctl.core.screen`), so no control
sequence of the far end reaches this terminal.
"""
