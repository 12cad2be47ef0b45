"""Speed and memory of ptyctl compared with bare loops and other libraries: `make bench`, or `python -m tests.benchmarks`.

pytest does not run these modules. Each row measures all candidates alternately in one run, because the speed of a machine
changes over time. Start reading at `rows.py` (all rows), `measurement.py` (the method) and `table.py` (aims, output).
"""
