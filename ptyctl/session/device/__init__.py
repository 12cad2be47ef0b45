"""What a session does by itself at a device's prompt: it logs in, finds the family, walks between modes."""
