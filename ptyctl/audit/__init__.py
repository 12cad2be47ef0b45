"""The audit log: rows in append-only files, chained by hashes.

Start with `chain.py`, the rows and their verification; `audit_files.py` stores them and answers requests from them,
`audit_log.py` writes them from a thread, and limits the rows that clients can cause in any number.
"""
