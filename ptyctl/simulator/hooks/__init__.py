"""What the quirks do: one class for each, in files by the point at which they step in."""
