"""The screen of a session: a lazy fold of its output, and what programs and watchers get of it (design, section 3)."""
