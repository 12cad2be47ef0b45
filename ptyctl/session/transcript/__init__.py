"""A session's files on disk, and their recovery after a crash.

`transcript.py` writes the output files: `output.raw` (`raw_log.py`), the spool, the prompt lines and the timeline
(`timeline.py`). `append_file.py`, `jsonl.py` and `meta_file.py` are the file formats. `recovery.py` repairs a folder whose
process was killed, with `stored_blocks.py`. `recording_reader.py` and `stored_sessions.py` read folders without opening the
session. Imports `core`, `api`, `clock`, and the session's `spec` and `clients`. Start with `transcript.py`.
"""
