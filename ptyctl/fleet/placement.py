"""Which nodes may take a console or a device, in order of preference. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .directory import NodeRow


def may_reach(row: NodeRow, labels: Collection[str]) -> bool:
    """Return whether a node may reach a device with these `node_labels`. The names of a node and of its site are labels of it.

    A node of another site is named `site/node`, and may reach only devices that name its site: claims do not leave a site.
    """
    site, _, name = row.node.rpartition("/")
    return set(labels) <= {name, row.site, *row.labels} and (not site or site in labels)


def candidates(rows: Iterable[NodeRow], labels: Collection[str], *, prefer: str = "") -> list[str]:
    """Return the nodes that may take a device, the least loaded first.

    Args:
        rows: the nodes that are up.
        labels: the `node_labels` of the device.
        prefer: the node that is first among equally loaded ones: a call to another one costs a forwarding.
    """
    able = [row for row in rows if not row.draining and may_reach(row, labels)]
    return [row.node for row in sorted(able, key=lambda row: (row.sessions, row.node != prefer, row.node))]
