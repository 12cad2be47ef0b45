"""Prints numbered lines without an end, as fast as its terminal takes them: what a killed daemon lost or doubled would show."""

import sys

number = 0
while True:
    number += 1
    sys.stdout.write(f"line {number} {'x' * (number % 70)}\n")
