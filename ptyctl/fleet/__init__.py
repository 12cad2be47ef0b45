"""The fleet: many nodes (daemons) over NATS. Each console has one owner.

Start reading in `node_lease`.

- `claim`: the value and the fences of a console claim; pure.
- `buckets`: the key-value stores and their required configuration.
- `node_lease`: the lease of a node, with its write deadline, and those of all nodes.
- `console_claims`, `session_claims`: who owns a console. `claim_directory`: the claims of all nodes.
- `directory`: the nodes of a site and their sessions. `sites`: those of the other sites.
- `link`: the daemon's protocol between two nodes. `controller`: calls go to the owner.
- `drain`, `standby`: hand-over of consoles to other nodes, as planned and after the loss of their owner.
- `control`: requests of the administrator to a node. `fleet_policy`: the policy of the whole fleet.
- `approvals`: approval requests of all nodes. `audit_stream`: the audit rows of all nodes.
- `node`: all of it in a daemon, and the time limit of its start.
- `server_files`, `credentials`, `certificates`, `site_state`: set-up, and checks of a site.

Needs the extra `fleet` (nats-py). Nothing outside this package imports it, so that a daemon without a fleet starts nothing of
it. Imports `api`, `core`, `audit`, `session`, `controller` and, for calls between nodes, `daemon`.
"""
