"""Control characters, each named once (ECMA-48 5th ed., section 8.3)."""

NUL = b"\x00"
ETX = b"\x03"  # what Ctrl-C types
BEL = b"\x07"
BS = b"\x08"
HT = b"\x09"
LF = b"\x0a"
CR = b"\x0d"
CAN = b"\x18"
SUB = b"\x1a"
ESC = b"\x1b"
ST = ESC + b"\\"

#: Bracketed paste (xterm, private mode 2004): what is between the two is inserted, not interpreted.
PASTE_BEGIN = ESC + b"[200~"
PASTE_END = ESC + b"[201~"

#: DEC private modes that change what is typed or drawn.
DECCKM = 1  # application cursor keys
BRACKETED_PASTE = 2004
