"""The files of `ptyctl fleet init`: configurations of the NATS servers of a site, and a file for each node."""

from __future__ import annotations

import json
import os
import re
import secrets
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nkeys
from pydantic import BaseModel, ConfigDict, Field

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid

from .audit_stream import STREAM, audit_subject
from .buckets import BUCKET_TTL_S, CLAIMS, LEASES, NODES, OLD_CLAIMS, POLICY, SESSIONS, encode_key
from .certificates import CA_FILE, CA_KEY_FILE, Authority
from .control import control_subject
from .credentials import ADMIN, NAME, inbox_prefix
from .link import rpc_subject
from .sites import HUB, mirror_name

_PORT = 4222
#: The port on which a server listens for the others of its cluster, after the port for nodes.
CLUSTER_PORT_OFFSET = 2000
#: The port on which a hub listens for the servers of the sites, after the port for nodes.
LEAF_PORT_OFFSET = 3200
_LEAF_USER = "site"
#: The file in a hub's folder that the sites need.
HUB_FILE = "hub.toml"


class Hub(BaseModel):
    """The content of hub.toml: how the servers of a site reach the hub.

    Attributes:
        servers: HOST:PORT of the hub's servers, for leaf nodes.
        password: with which the servers of a site log in; who has it can connect a site.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    servers: tuple[str, ...] = Field(min_length=1)
    password: str = Field(min_length=1, repr=False)

    @classmethod
    def load(cls, folder: Path) -> Hub:
        """Read the file in the folder of a hub. Raises PtyctlError INVALID_ARGUMENT."""
        try:
            return cls.model_validate(tomllib.loads((folder / HUB_FILE).read_text()))
        except (OSError, ValueError) as error:
            message = f"{folder} has no valid {HUB_FILE}: {str(error).splitlines()[0]}"
            raise invalid(message, hint="name the folder that ptyctl fleet init --site hub wrote") from None


@dataclass(frozen=True, slots=True)
class Site:
    """A site: its name, the addresses of its NATS servers, and the names of its nodes.

    Attributes:
        authority: signs the certificates; by default a new one.
        hub: connects the site with others; None for a fleet of one site.
    """

    name: str
    servers: Sequence[str]
    nodes: Sequence[str]
    authority: Authority | None = None
    hub: Hub | None = None

    def check(self) -> None:
        """Raise PtyctlError INVALID_ARGUMENT for a name that is none, a name that occurs twice, or a number of servers."""
        for name in (self.name, *self.nodes):
            if not re.fullmatch(NAME, name):
                raise invalid(f"{name!r} is not a name: use lower-case letters, digits and hyphens")
        if self.is_hub and (self.nodes or self.hub is not None):
            raise invalid(f"the site {HUB} connects the others: it has no nodes, and no hub of its own")
        if ADMIN in self.nodes:
            raise invalid(f"{ADMIN} is the name of the administrator's file, not of a node")
        for names in (self.servers, self.nodes or [ADMIN]) if self.is_hub else (self.servers, self.nodes):
            if not names or len(set(names)) != len(names):
                raise invalid("servers and nodes are needed, each of them once")
        if len(self.servers) not in (1, 3, 5):
            raise invalid(
                f"a site has 1, 3 or 5 NATS servers, not {len(self.servers)}",
                hint="three servers survive the loss of one; two would survive none",
            )

    @property
    def is_hub(self) -> bool:
        """Whether it is the hub, which connects the sites."""
        return self.name == HUB

    @property
    def replicas(self) -> int:
        return min(len(self.servers), 3)


def write_site(folder: Path, site: Site) -> list[Path]:
    """Write the files of a site to a new folder; return them.

    Raises:
        PtyctlError: INVALID_ARGUMENT; IO_ERROR if the folder exists, or cannot be written.
    """
    site.check()
    seeds = {name: nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER) for name in (*site.nodes, ADMIN)}
    users = [_user(site, name, _public_key(seed)) for name, seed in seeds.items()]
    authority = site.authority or Authority.create(site.name)
    texts = {CA_FILE: authority.certificate_pem(), CA_KEY_FILE: authority.key_pem()}
    leaves: Hub | None = None
    if site.is_hub:
        addresses = tuple(f"{host}:{port + LEAF_PORT_OFFSET}" for host, port in map(_split, site.servers))
        leaves = Hub(servers=addresses, password=secrets.token_hex(16))
        texts[HUB_FILE] = f'servers = {json.dumps(addresses)}\npassword = "{leaves.password}"\n'
    for number, text in enumerate(_configurations(site, users, leaves), 1):
        host, _ = _split(site.servers[number - 1])
        texts[f"nats-{number}.conf"] = text
        texts[f"nats-{number}.pem"] = authority.issue(f"{site.name}-{number}", [host])
    for name, seed in seeds.items():
        texts[f"{name}.toml"] = _credentials(site, name, seed.decode())
        texts[f"{name}.pem"] = authority.issue(name)
    try:
        folder.mkdir(mode=0o700, parents=True)
        files = [_write(folder / name, text) for name, text in texts.items()]
    except FileExistsError:
        hint = "name a new folder: keys that are in use are not replaced"
        raise PtyctlError(ErrorCode.IO_ERROR, f"{folder} exists", hint=hint) from None
    except OSError as error:
        raise PtyctlError(ErrorCode.IO_ERROR, f"{folder} cannot be written: {error.strerror}") from None
    return files


def _public_key(seed: bytes) -> str:
    return str(nkeys.from_seed(bytearray(seed)).public_key.decode())


def _configurations(site: Site, users: list[str], leaves: Hub | None) -> list[str]:
    """Return the configuration of each server. All servers have the same users. `leaves`: the block that accepts leaf nodes."""
    login = f"route:{secrets.token_hex(16)}"
    routes = ", ".join(f'"nats://{login}@{host}:{port + CLUSTER_PORT_OFFSET}"' for host, port in map(_split, site.servers))
    texts = []
    domain = f", domain: {site.name}" if site.is_hub or site.hub is not None else ""
    for number, (host, port) in enumerate(map(_split, site.servers), 1):
        user, _, password = login.partition(":")
        tls = _tls(f"nats-{number}.pem")
        cluster = (
            f'cluster {{ name: {site.name}, listen: "{host}:{port + CLUSTER_PORT_OFFSET}", routes: [{routes}], {tls},\n'
            f'  authorization {{ user: {user}, password: "{password}" }} }}\n'
        )
        texts.append(
            f"# NATS server {number} of the ptyctl site {site.name}: nats-server -c nats-{number}.conf\n"
            f"server_name: {site.name}-{number}\n"
            f'listen: "{host}:{port}"\n'
            f"{tls}\n"
            "# A claim that was acknowledged must survive a loss of power.\n"
            f'jetstream {{ store_dir: "./nats-{number}-data", sync_interval: always{domain} }}\n'
            + (cluster if len(site.servers) > 1 else "")
            + _leaf_nodes(site, leaves, host, port, tls)
            + "authorization { users: [\n"
            + "".join(f"  {user}\n" for user in users)
            + "] }\n"
        )
    return texts


def _leaf_nodes(site: Site, leaves: Hub | None, host: str, port: int, tls: str) -> str:
    """Return the block that connects a site with the hub. The hub mirrors two of the site's buckets."""
    if leaves is not None:
        login = f'authorization {{ user: {_LEAF_USER}, password: "{leaves.password}" }}'
        return f'leafnodes {{ listen: "{host}:{port + LEAF_PORT_OFFSET}", {login}, {tls} }}\n'
    if site.hub is None:
        return ""
    urls = ", ".join(f'"tls://{_LEAF_USER}:{site.hub.password}@{server}"' for server in site.hub.servers)
    return f'leafnodes {{ remotes: [{{ urls: [{urls}], {tls}, deny_imports: ["$KV.>"], deny_exports: ["$KV.>"] }}] }}\n'


def _tls(file: str) -> str:
    """Return the block with which a server encrypts, and accepts only certificates of the fleet's authority."""
    return f'tls {{ cert_file: "./{file}", key_file: "./{file}", ca_file: "./{CA_FILE}", verify: true }}'


def _user(site: Site, name: str, public_key: str) -> str:
    """Return a key with its permissions.

    A node announces only itself and its sessions, renews only its own lease, and reads only its own inboxes. The administrator
    owns no console.
    """
    own = _admin_publishes(site) if name == ADMIN else _node_publishes(site, name)
    answers = [] if name == ADMIN else [rpc_subject(site.name, name), control_subject(site.name, name)]
    permissions = {"publish": [*own, *_reads(), "_INBOX.>"], "subscribe": [*answers, f"{inbox_prefix(site.name, name)}.>"]}
    return f"{{ nkey: {public_key}, permissions: {json.dumps(permissions)} }}  # {name}"


def _node_publishes(site: Site, node: str) -> list[str]:
    return [
        *(_hub_requests(site) if site.hub is not None else ()),
        f"$KV.{NODES}.{encode_key(node)}",
        f"$KV.{SESSIONS}.{encode_key(node)}.>",
        f"$KV.{LEASES}.{encode_key(node)}",
        f"$KV.{CLAIMS}.>",
        rpc_subject(site.name, "*"),
        audit_subject(site.name, node),
        f"$JS.API.STREAM.CREATE.{STREAM}",
        *(f"$JS.API.STREAM.CREATE.KV_{name}" for name in BUCKET_TTL_S),
    ]


def _hub_requests(site: Site) -> list[str]:
    """Return the requests with which a node has its site mirrored, and follows the other sites."""
    streams = [mirror_name(bucket, site.name) for bucket in (NODES, SESSIONS)]
    return [
        f"$JS.{HUB}.API.INFO",
        f"$JS.{HUB}.API.STREAM.LIST",
        *(f"$JS.{HUB}.API.STREAM.CREATE.{stream}" for stream in streams),
        *(f"$JS.{HUB}.API.{action}.>" for action in ("CONSUMER.CREATE", "CONSUMER.INFO", "CONSUMER.DELETE")),
        "ptyctl.*.*.rpc",
    ]


def _admin_publishes(site: Site) -> list[str]:
    hub = [f"$JS.{HUB}.API.STREAM.LIST"] if site.hub is not None else []
    return [
        *hub,
        control_subject(site.name, "*"),
        f"$KV.{SESSIONS}.>",
        f"$KV.{POLICY}.>",
    ]


def _reads() -> list[str]:
    """Return the requests that read and follow the buckets."""
    streams = [*(f"KV_{name}" for name in BUCKET_TTL_S), STREAM]
    return [
        "$JS.API.INFO",
        f"$JS.API.STREAM.INFO.KV_{OLD_CLAIMS}",
        *(
            f"$JS.API.{action}.{stream}{rest}"
            for stream in streams
            for action, rest in [
                ("STREAM.INFO", ""),
                ("STREAM.MSG.GET", ""),
                ("CONSUMER.CREATE", ""),
                ("CONSUMER.CREATE", ".>"),
                ("CONSUMER.INFO", ".>"),
                ("CONSUMER.DELETE", ".>"),
            ]
        ),
        *(f"$JS.ACK.{stream}.>" for stream in streams),
        "$JS.FC.>",
    ]


def _credentials(site: Site, name: str, seed: str) -> str:
    servers = [f"tls://{host}:{port}" for host, port in map(_split, site.servers)]
    if name == ADMIN:
        head = (
            f'# The administrator of the ptyctl site {site.name}: ptyctl fleet drain NODE --fleet {name}.toml\nrole = "admin"\n'
        )
    else:
        head = f"# Node {name} of the ptyctl site {site.name}: ptyctl serve --fleet {name}.toml\n"
    return (
        f"{head}"
        f'site = "{site.name}"\n'
        f'node = "{name}"\n'
        f"servers = {json.dumps(servers)}\n"
        f"replicas = {site.replicas}\n" + ("hub = true\n" if site.hub is not None else "") + f'ca = "{CA_FILE}"\n'
        f'certificate = "{name}.pem"\n'
        f'seed = "{seed}"\n'
    )


def _split(server: str) -> tuple[str, int]:
    """Return host and port of an address."""
    host, separator, port = server.rpartition(":")
    if not separator:
        return server, _PORT
    if not port.isdecimal():
        raise invalid(f"{server} is not HOST or HOST:PORT")
    return host, int(port)


def _write(path: Path, text: str) -> Path:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return path
