"""The line to the far end: what comes in wakes who waits, and what goes out passes one gate (design, sections 3 and 7)."""
