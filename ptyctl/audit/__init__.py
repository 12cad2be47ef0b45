"""The record of who did what: rows in append-only files, chained by hashes."""
