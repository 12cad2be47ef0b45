"""A program for the far end of a local session: it reads lines of hex and prints the bytes.

With the argument `keys` it prints, in hex, the bytes that it receives, each read in angle brackets. The other arguments are hex
to print first.
"""

import os
import sys
import tty

tty.setraw(0)  # nothing echoes, and no byte is changed on its way out
for greeting in sys.argv[2:]:
    os.write(1, bytes.fromhex(greeting))
os.write(1, b"ready\n")
rest = b""
while received := os.read(0, 65536):
    if sys.argv[1] == "keys":
        os.write(1, b"<%s>" % received.hex().encode())
        continue
    *lines, rest = (rest + received).split(b"\r")
    for line in lines:
        told = memoryview(bytes.fromhex(line.decode()))
        while told:
            told = told[os.write(1, told) :]
