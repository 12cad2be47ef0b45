"""The state of a site, read once from its buckets, and checks of its servers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from nats.aio.client import Client
from nats.js.errors import NotFoundError

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid

from .buckets import (
    BUCKET_TTL_S,
    CLAIMS,
    LEASES,
    NODES,
    POLICY,
    SESSIONS,
    ConflictError,
    Entry,
    check_format,
    decode_key,
    encode_key,
    find_bucket,
    find_problems,
    reported,
)
from .certificates import days_left
from .claim_directory import decode_claim
from .control import request
from .credentials import Credentials, connect
from .directory import NodeRow, decode_node
from .fleet_policy import KEY, decode_policy, sign_policy
from .node_lease import decode_renewal
from .sites import HUB, mirror_name

#: How long the first connection may take for a person at a terminal (seconds).
_CONNECT_S = 3.0


async def read_site(credentials: Credentials) -> dict[str, Any]:
    """Return `nodes` and `consoles` of a site, sorted by name, and `problems`.

    A node is not `up` if it has sessions without announcing itself, or announces itself with an invalid row.

    Raises:
        PtyctlError: CONNECT_FAILED, AUTH_FAILED; IO_ERROR.
    """
    client = await connect(credentials, wait_s=_CONNECT_S)
    try:
        values = {name: await _values(client, name) for name in BUCKET_TTL_S}
    finally:
        await client.close()
    nodes = _decode_nodes(values[NODES], values[SESSIONS])
    return {
        "site": credentials.site,
        "problems": _problems(credentials.site, nodes),
        "nodes": [{**asdict(row), "up": True} for row in nodes.up] + [{"node": node, "up": False} for node in nodes.not_up],
        "consoles": _consoles(values[CLAIMS], values[LEASES]),
    }


def _consoles(claims: Mapping[str, Entry], leases: Mapping[str, Entry]) -> list[dict[str, Any]]:
    """Return the claims that are in force."""
    renewals = [decode_renewal(key, entry.value) for key, entry in leases.items()]
    in_force = {renewal.lease_id for renewal in renewals if renewal is not None}
    rows = []
    for key, entry in claims.items():
        claim = decode_claim(key, entry)
        if claim is not None and claim.lease_id in in_force:
            fields = asdict(claim)
            rows.append({"device_id": decode_key(key), "lease": fields.pop("lock"), **fields})
    return rows


class _Nodes(NamedTuple):
    """The nodes of a site: the rows of nodes that are up, and the reasons for the others, by name."""

    up: list[NodeRow]
    not_up: dict[str, str]


def _decode_nodes(rows: Mapping[str, Entry], sessions: Iterable[str]) -> _Nodes:
    """Return the nodes of all rows and session keys. A node with an invalid row is not called by the others."""
    nodes = _Nodes([], {decode_key(key.partition(".")[0]): "does not announce itself" for key in sorted(sessions)})
    for key, entry in rows.items():
        try:
            row = decode_node(key, entry)
        except ValueError as error:
            nodes.not_up[decode_key(key)] = f"announces itself with an invalid row: {error}"
        else:
            nodes.up.append(row)
            nodes.not_up.pop(row.node, None)
    return nodes


def _problems(site: str, nodes: _Nodes) -> list[dict[str, Any]]:
    """Return the degraded parts: since when (epoch seconds, if known), and the next step."""
    found: list[dict[str, Any]] = [
        {
            "what": f"node {node} {why}",
            "since": None,
            "hint": "check its machine, network and version; if it will not come back: ptyctl fleet forget",
        }
        for node, why in nodes.not_up.items()
    ]
    for row in nodes.up:
        if row.policy_problem:
            what = f"node {row.node} does not use the fleet's newest policy: {row.policy_problem}"
            hint = "its policy before is in force; sign the policy again with ptyctl fleet policy"
            found.append({"what": what, "since": None, "hint": hint})
    cut = {row.node: row.hub_cut_since for row in nodes.up if row.hub_cut_since is not None}
    if cut:
        what = f"site {site} is cut off from the hub, as seen by {', '.join(sorted(cut))}"
        hint = "the site works on, without the other sites; check the hub's servers and the way to them"
        found.append({"what": what, "since": min(cut.values()), "hint": hint})
    return found


async def forget_node(credentials: Credentials, node: str) -> int:
    """Remove the session rows of a node that no longer exists; return their number. Needs the administrator's key.

    Raises:
        PtyctlError: INVALID_ARGUMENT without the administrator's file, or if the node is up or has no rows; CONNECT_FAILED,
            AUTH_FAILED, IO_ERROR.
    """
    if credentials.role != "admin":  # the servers do not answer requests that a key does not permit
        raise invalid("only the administrator removes a node's sessions", hint="use the file admin.toml")
    client = await connect(credentials, wait_s=_CONNECT_S)
    try:
        if encode_key(node) in await _values(client, NODES):
            raise invalid(f"node {node} is up", hint="stop it first: a node publishes its sessions again")
        keys = [key for key in await _values(client, SESSIONS) if decode_key(key.partition(".")[0]) == node]
        if not keys:
            raise invalid(f"node {node} has no session rows", hint="see the nodes with ptyctl fleet status")
        bucket = await find_bucket(client.jetstream(), SESSIONS)
        for key in keys:
            await bucket.delete(key)
    finally:
        await client.close()
    return len(keys)


async def publish_policy(credentials: Credentials, text: str) -> int:
    """Sign a policy and publish it to the nodes of a site; return its number. Needs the administrator's file.

    Raises:
        PtyctlError: INVALID_ARGUMENT without the administrator's certificate; BUSY if another policy was published meanwhile;
            CONNECT_FAILED, AUTH_FAILED, IO_ERROR.
    """
    if credentials.role != "admin" or credentials.certificate is None:
        raise invalid("only the administrator signs policies", hint="use the file admin.toml, with admin.pem")
    client = await connect(credentials, wait_s=_CONNECT_S)
    try:
        bucket = await find_bucket(client.jetstream(), POLICY)
        current = await bucket.get(KEY)
        # The bucket may have been created again, while nodes keep the policy of the old one.
        known = [row.policy for row in _decode_nodes(await _values(client, NODES), ()).up]
        number = max([0 if current is None else decode_policy(current.value).number, *known]) + 1
        value = sign_policy(text, number, credentials.certificate).model_dump_json().encode()
        await (bucket.create(KEY, value) if current is None else bucket.update(KEY, value, current.revision))
    except NotFoundError:
        raise invalid("the site has no bucket for policies yet", hint="start a node first") from None
    except ConflictError:
        raise PtyctlError(
            ErrorCode.BUSY, "another policy was published meanwhile", hint="repeat it if it still applies"
        ) from None
    finally:
        await client.close()
    return number


async def drain_node(credentials: Credentials, node: str, *, undo: bool) -> dict[str, Any]:
    """Drain a node, or let it take consoles again; return its answer. Needs the administrator's file. Raises PtyctlError."""
    if credentials.role != "admin" or credentials.certificate is None:
        raise invalid("only the administrator drains nodes", hint="use the file admin.toml, with admin.pem")
    client = await connect(credentials, wait_s=_CONNECT_S)
    try:
        return await request(client, credentials.site, node, "undrain" if undo else "drain", credentials.certificate)
    finally:
        await client.close()


async def _values(client: Client, name: str) -> dict[str, Entry]:
    """Return all current keys of a bucket; empty if the bucket does not exist."""
    values: dict[str, Entry] = {}
    try:
        bucket = await find_bucket(client.jetstream(), name)
    except NotFoundError:
        return values
    changes = bucket.watch()
    async for change in changes:
        if change is None:
            break
        key, entry = change
        if entry is not None:
            values[key] = entry
    await changes.aclose()
    return dict(sorted(values.items()))


#: A compare-and-set that takes longer leaves little of the write deadline's margin (seconds).
_SLOW_S = 0.5


#: The oldest version of nats-server that the facts about the engine were tested with.
_SERVER_VERSION = (2, 15)
#: A certificate that expires sooner is reported (days), and a mirror that is further behind (rows).
_RENEW_DAYS, _MAX_LAG = 30, 1000


class SiteCheck(NamedTuple):
    """One result of `check_site`: the check, whether it succeeded, and details."""

    check: str
    ok: bool
    message: str


async def check_site(credentials: Credentials) -> list[SiteCheck]:
    """Check the servers, the key, the buckets with their copies, and the response time of a site. Changes nothing."""
    try:
        client = await connect(credentials, wait_s=_CONNECT_S)
    except PtyctlError as error:
        return [SiteCheck("servers", False, f"{error.message}; {error.hint}")]
    try:
        found = [SiteCheck("servers", True, f"connected to {client.connected_url.netloc}")] if client.connected_url else []
        found.append(_check_version(client))
        if credentials.certificate is not None:
            found.append(_check_certificate(credentials.certificate))
        for name in BUCKET_TTL_S:
            found.append(await _check_bucket(client, name, credentials.replicas))
        found += await _check_format(client)
        found.append(await _check_nodes(client, credentials.site))
        if credentials.hub:
            found.append(await check_hub(client, credentials.site))
        return found
    finally:
        await client.close()


async def _check_format(client: Client) -> list[SiteCheck]:
    """Return the problem that the site has claims of an earlier version, if it has."""
    try:
        await check_format(client.jetstream())
    except PtyctlError as error:
        return [SiteCheck("format", False, f"{error.message}: {error.hint}")]
    return []


def _check_version(client: Client) -> SiteCheck:
    version = client.connected_server_version
    text = f"{version.major}.{version.minor}.{version.patch}"
    if (version.major, version.minor) >= _SERVER_VERSION:
        return SiteCheck("server version", True, text)
    return SiteCheck(
        "server version", False, f"{text}; claims were tested from {'.'.join(map(str, _SERVER_VERSION))} on: update it"
    )


def _check_certificate(file: Path) -> SiteCheck:
    try:
        days = days_left(file)
    except PtyctlError as error:
        return SiteCheck("certificate", False, error.message)
    if days > _RENEW_DAYS:
        return SiteCheck("certificate", True, f"valid for {days} days")
    return SiteCheck(
        "certificate", False, f"{file.name} is valid for {days} days only: run fleet init again for the site, with --ca"
    )


async def _check_nodes(client: Client, site: str) -> SiteCheck:
    """Check the reports of the nodes."""
    try:
        nodes = _decode_nodes(await _values(client, NODES), await _values(client, SESSIONS))
    except PtyctlError as error:
        return SiteCheck("nodes", False, error.message)
    problems = [f"{problem['what']}: {problem['hint']}" for problem in _problems(site, nodes)]
    versions = sorted({row.version for row in nodes.up})
    if len(versions) > 1:
        problems.append(f"they have the versions {', '.join(versions)}: update all of them")
    drained = [row.node for row in nodes.up if row.draining]
    also = f"; drained: {', '.join(drained)}" if drained else ""
    return SiteCheck("nodes", not problems, "; ".join(problems) or f"{len(nodes.up)} up{also}")


async def check_hub(client: Client, site: str) -> SiteCheck:
    """Check that the hub answers, and that its mirrors of the site exist and are not far behind."""
    try:
        async with reported("reach the hub"):
            infos = {info.config.name: info for info in await client.jetstream(domain=HUB, timeout=_CONNECT_S).streams_info()}
    except (PtyctlError, NotFoundError) as error:
        return SiteCheck("hub", False, f"{error}: check its servers, and that the site's servers reach its port for leaf nodes")
    missing = [bucket for bucket in (NODES, SESSIONS) if mirror_name(bucket, site) not in infos]
    if missing:
        return SiteCheck("hub", False, f"it has no mirror of {', '.join(missing)}: a node of the site creates it, start one")
    lag = max((info.mirror.lag or 0) for name, info in infos.items() if info.mirror is not None)
    sites = sorted(
        str(name).removeprefix(mirror_name(NODES, "")) for name in infos if str(name).startswith(mirror_name(NODES, ""))
    )
    return SiteCheck("hub", lag <= _MAX_LAG, f"it mirrors {', '.join(sites)}; {lag} {'row' if lag == 1 else 'rows'} behind")


def _copies(number: int) -> str:
    return "1 copy" if number == 1 else f"{number} copies"


async def _check_bucket(client: Client, name: str, replicas: int) -> SiteCheck:
    check, started = f"bucket {name}", time.monotonic()
    try:
        async with reported(f"read the bucket {name}"):
            info = await client.jetstream().stream_info(f"KV_{name}")
    except NotFoundError:
        return SiteCheck(check, True, "it does not exist yet; the first node creates it")
    except PtyctlError as error:
        return SiteCheck(check, False, f"{error.message}: see whether a server of the site has a leader for it")
    took_s = time.monotonic() - started
    problems = find_problems(info.config, BUCKET_TTL_S[name])
    if (info.config.num_replicas or 1) != replicas:
        problems.append(f"it has {_copies(info.config.num_replicas or 1)} instead of {replicas}")
    behind = [peer.name for peer in (info.cluster.replicas if info.cluster else None) or [] if not peer.current]
    if behind:
        problems.append(f"copies are behind or gone: {', '.join(str(peer) for peer in behind)}")
    if took_s > _SLOW_S:
        problems.append(f"an answer took {took_s * 1000:.0f} ms")
    return SiteCheck(check, not problems, "; ".join(problems) or f"{_copies(replicas)}, an answer took {took_s * 1000:.0f} ms")
