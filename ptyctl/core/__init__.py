"""Pure parts: bytes or values in, values out. No await, no clock, no file, no socket; time is passed in."""
