"""The files of `ptyctl fleet init`, with a real server that loads them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from cryptography import x509
from nats.aio.client import Client
from nats.errors import Error as NatsError

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.fleet import site_state
from ptyctl.fleet.buckets import BUCKET_TTL_S, find_bucket
from ptyctl.fleet.certificates import Authority, days_left
from ptyctl.fleet.credentials import connect, load_credentials
from ptyctl.fleet.node import Membership
from ptyctl.fleet.server_files import Site, write_site
from ptyctl.fleet.site_state import check_site, read_site
from tests.fleet.site_files import new_site, site_server

pytestmark = pytest.mark.waits


async def test_node_joins_a_site_with_its_file(tmp_path: Path) -> None:
    folder = new_site(tmp_path)
    with site_server(folder):
        credentials = load_credentials(folder / "alpha.toml")
        async with Membership(credentials) as node:
            node.claims.use_state("state")
            await node.claims.claim("rack-1", "s1")
            state = await read_site(credentials)
    (console,) = state["consoles"]
    assert (console["device_id"], console["node"], console["session_id"]) == ("rack-1", "alpha", "s1")


async def test_doctor_reports_each_bucket_and_what_is_wrong_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_state, "_SLOW_S", 60.0)  # an answer of a busy machine can be too slow
    credentials = load_credentials(new_site(tmp_path) / "alpha.toml")
    (alone,) = await check_site(credentials)
    assert (alone.check, alone.ok) == ("servers", False)
    with site_server(tmp_path / "fleet"):
        async with Membership(credentials):
            checks = {check.check: check for check in await check_site(credentials)}
            buckets = {f"bucket {name}" for name in BUCKET_TTL_S}
            assert set(checks) == {"servers", "server version", "certificate", "nodes", *buckets}
            assert [check for check in checks.values() if not check.ok] == []
            assert checks["bucket nodes"].message.startswith("1 copy, ")
            more = {check.check: check for check in await check_site(credentials.model_copy(update={"replicas": 3}))}
    assert not more["bucket nodes"].ok
    assert "1 copy instead of 3" in more["bucket nodes"].message


async def stored(client: Client, bucket: str, key: str) -> bytes | None:
    """Return the value of a key, in order behind all earlier writes; None without one."""
    found = await (await find_bucket(client.jetstream(), bucket)).get(key)
    return found.value if found is not None else None


async def test_key_of_a_node_does_not_write_rows_or_read_inboxes_of_another(tmp_path: Path) -> None:
    folder = new_site(tmp_path)
    with site_server(folder):
        async with Membership(load_credentials(folder / "alpha.toml")):  # creates the buckets
            client = await connect(load_credentials(folder / "beta.toml"))
            alpha = await connect(load_credentials(folder / "alpha.toml"))
            await client.jetstream(timeout=60).publish("$KV.nodes.beta", b"own row")
            stream = client.jetstream(timeout=1)  # a refused message has no answer
            for bucket, key in (("nodes", "alpha"), ("sessions", "alpha.s1"), ("leases", "alpha")):
                with pytest.raises(NatsError):
                    await stream.publish(f"$KV.{bucket}.{key}", b"forged")
                assert await stored(alpha, bucket, key) != b"forged"
            assert await stored(alpha, "nodes", "beta") == b"own row"
            with pytest.raises(NatsError):
                await stream.delete_stream("KV_claims")
            received: list[bytes] = []

            async def receive(message: object) -> None:
                received.append(message.data)  # type: ignore[attr-defined]

            await client.subscribe("_INBOX.fra.alpha.>", cb=receive)
            await client.publish("_INBOX.fra.alpha.x", b"private")
            await client.flush()
            assert not received
            await alpha.close()
            await client.close()


async def test_key_of_another_site_is_refused(tmp_path: Path) -> None:
    folder = new_site(tmp_path)
    own = load_credentials(folder / "alpha.toml")
    write_site(tmp_path / "other", Site("fra", ["127.0.0.1:1"], ["alpha"]))
    other = own.model_copy(update={"seed": load_credentials(tmp_path / "other" / "alpha.toml").seed})
    with site_server(folder):
        async with asyncio.timeout(20):
            await (await connect(own)).close()
        with pytest.raises(PtyctlError) as refused:
            await connect(other)
    assert refused.value.code is ErrorCode.AUTH_FAILED


async def test_node_of_another_fleet_or_without_a_certificate_is_refused(tmp_path: Path) -> None:
    folder = new_site(tmp_path)
    own = load_credentials(folder / "alpha.toml")
    write_site(tmp_path / "other", Site("fra", ["127.0.0.1:1"], ["alpha"]))
    other = load_credentials(tmp_path / "other" / "alpha.toml").model_copy(update={"servers": own.servers})
    with site_server(folder):
        await (await connect(own)).close()
        for name, changed in {
            "the other fleet's certificates": other.model_copy(update={"seed": own.seed}),
            "a certificate of the other fleet": own.model_copy(update={"certificate": other.certificate}),
            "no certificate": own.model_copy(update={"certificate": None}),
            "no encryption": own.model_copy(
                update={"ca": None, "certificate": None, "servers": (own.servers[0].replace("tls", "nats"),)}
            ),
        }.items():
            with pytest.raises(PtyctlError) as refused:
                async with asyncio.timeout(30):
                    await connect(changed, wait_s=0)
            assert refused.value.code in (ErrorCode.AUTH_FAILED, ErrorCode.CONNECT_FAILED), name


def test_second_site_of_a_fleet_has_certificates_of_the_same_authority(tmp_path: Path) -> None:
    folder = new_site(tmp_path)
    authority = Authority.load(folder)
    write_site(tmp_path / "nyc", Site("nyc", ["127.0.0.1"], ["gamma"], authority))
    ca = (folder / "ca.pem").read_bytes()
    assert (tmp_path / "nyc" / "ca.pem").read_bytes() == ca
    certificate = x509.load_pem_x509_certificate((tmp_path / "nyc" / "nats-1.pem").read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(ca))
    assert days_left(tmp_path / "nyc" / "gamma.pem") > 3000
    with pytest.raises(PtyctlError, match="no authority"):
        Authority.load(tmp_path)


async def test_servers_that_do_not_answer_are_named(tmp_path: Path) -> None:
    credentials = load_credentials(new_site(tmp_path) / "alpha.toml")
    async with asyncio.timeout(20):  # by default the library tries for a minute
        with pytest.raises(PtyctlError, match=credentials.servers[0]) as refused:
            await connect(credentials, wait_s=0)
    assert refused.value.code is ErrorCode.CONNECT_FAILED


def test_files_are_private_and_a_folder_is_never_replaced(tmp_path: Path) -> None:
    folder = new_site(tmp_path)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    with pytest.raises(PtyctlError, match="exists"):
        write_site(folder, Site("fra", ["127.0.0.1"], ["alpha"]))


@pytest.mark.parametrize(
    ("site", "servers", "nodes", "why"),
    [
        ("FRA", ["a"], ["n"], "'FRA' is not a name"),
        ("fra", ["a"], ["n.x"], "'n.x' is not a name"),
        ("fra", ["a"], ["n", "n"], "each of them once"),
        ("fra", ["a", "b"], ["n"], "not 2"),
        ("fra", ["a:port"], ["n"], "a:port is not HOST or HOST:PORT"),
    ],
)
def test_invalid_site_is_refused_with_the_reason(
    tmp_path: Path, site: str, servers: list[str], nodes: list[str], why: str
) -> None:
    with pytest.raises(PtyctlError, match=why):
        write_site(tmp_path / "fleet", Site(site, servers, nodes))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("site = ", "cannot be read"),
        ('site = "fra"\nnode = "a"\nservers = []\n', "servers"),
        ('site = "fra"\nnode = "A*"\nservers = ["nats://h"]\n', "node"),
        ('site = "fra"\nnode = "a"\nservers = ["nats://h"]\nextra = 1\n', "extra"),
    ],
)
def test_invalid_file_of_a_node_is_refused_with_the_key(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "a.toml"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(PtyctlError, match=why) as refused:
        load_credentials(path)
    assert refused.value.hint is not None


def test_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = new_site(tmp_path) / "alpha.toml"
    path.chmod(0o640)
    with pytest.raises(PtyctlError, match="other users") as refused:
        load_credentials(path)
    assert refused.value.code is ErrorCode.POLICY_DENIED
