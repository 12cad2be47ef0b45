"""The one async owner of a terminal: what it receives, keeps, searches, runs and lets write; and its transcript on disk.

    calls         what callers ask of a session: read, write, exec, wait, lock, search ... an operation a file
    session.py    the session, which holds its parts together; beside it what it is (spec, meta, size) and who uses it
    screen        what a person would see, as a lazy fold of the output
    device        what it does by itself at a device's prompt: logs in, finds the family, walks between modes
    runs          one command from its begin to its end, and its block
    line          the stream that comes in, the gate through which all goes out, and waiting between them
    transcript    the files, and what makes them whole again

Each imports what stands below it, and nothing above.
"""
