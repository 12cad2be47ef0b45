"""The fleet: many nodes (daemons) over NATS. Each console has one owner.

Pure: `claim` (the value and the fences of a console claim). On NATS: `buckets` (the key-value stores and their required
configuration), `node_lease` (the lease of a node, with its write deadline, and those of all nodes), `console_claims` and
`session_claims` (who owns a console), `claim_directory` (the claims of all nodes), `directory` (nodes and their sessions),
`link` (the daemon's protocol between two nodes), `controller` (calls go to the owner), `node` (all of it in a daemon).
Set-up: `server_files`, `credentials`, `site_state`.

Needs the extra `fleet` (nats-py). Nothing outside this package imports it, so that a daemon without a fleet starts nothing of
it. Imports `api`, `core` and, for calls between nodes, the daemon's protocol. Start reading in `node_lease`.
"""
