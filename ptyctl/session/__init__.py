"""The one async owner of a terminal: what it receives, keeps, searches, runs and lets write; and its transcript on disk."""
