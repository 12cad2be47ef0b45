"""Prints numbered lines endlessly, as fast as its terminal accepts them, so that lost or duplicated output is visible."""

import sys

number = 0
while True:
    number += 1
    sys.stdout.write(f"line {number} {'x' * (number % 70)}\n")
