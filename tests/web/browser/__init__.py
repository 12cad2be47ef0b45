"""The page of the web console in Chromium."""
