"""How fast ptyctl is, beside the bare loops and the libraries people use: `make bench`, or `python -m tests.benchmarks`.

Not tests: nothing here is asserted by pytest. Every row measures ours and its references in turns within one run, because a
machine drifts by more than the differences that matter.
"""
