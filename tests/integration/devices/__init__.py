"""Sessions on simulated devices: the simulated switch with its quirks, and the transcripts of the device families.

Start reading in `switch_inventory.py` and `conftest.py`.
"""
