"""What callers ask of a session: one operation, or a family of them, a file."""
