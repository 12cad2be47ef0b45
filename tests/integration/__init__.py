"""The whole way on real servers: sshd, zebra, telnetd, and the demo, as a user drives them."""
