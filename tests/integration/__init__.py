"""End-to-end tests against real programs: sshd, FRR, telnetd, tmux, vttest, and `ptyctl` as a process.

Without a server its tests are skipped; PTYCTL_REQUIRE_SERVERS=1 makes them fail. `devices/` uses the simulated switch.
"""
