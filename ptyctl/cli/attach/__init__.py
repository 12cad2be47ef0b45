"""`ptyctl attach`: a session in this terminal. What is drawn is the picture of the session's screen (core.screen.View)."""
