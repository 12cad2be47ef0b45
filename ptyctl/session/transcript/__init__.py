"""A session on disk (design, section 9): what it received, what is derived from that, and both made whole after a crash."""
