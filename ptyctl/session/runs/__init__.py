"""Runs: one command from its begin to its end, known in one of four ways, and kept as a block (design, section 6)."""
