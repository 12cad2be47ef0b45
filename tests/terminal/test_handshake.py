"""The handshake of runtimes: versions, proofs, and what each side rejects."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.terminal.handshake import (
    ClientHandshake,
    HandshakeError,
    Ready,
    ServerHandshake,
    Versions,
    new_runtime_session_id,
    token_name,
)

TOKEN, OTHER = "t" * 43, "u" * 43


def shake_hands(client: ClientHandshake, server: ServerHandshake) -> Ready:
    line = client.hello()
    while True:
        answer = client.receive(server.receive(line))
        if isinstance(answer, Ready):
            return answer
        line = answer


def edit(line: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(line), **fields}).encode() + b"\n"


@pytest.mark.parametrize("token", [None, TOKEN], ids=["pipes", "tcp"])
def test_handshake_gives_both_sides_trace_id_and_runtime_session(token: str | None) -> None:
    client, server = ClientHandshake("trace_1", token), ServerHandshake(token)
    ready = shake_hands(client, server)
    assert ready == server.ready
    assert (ready.version, ready.trace_id, ready.runtime_session_id[:3]) == (1, "trace_1", "rt_")


def test_resumed_runtime_session_keeps_its_id() -> None:
    session_id = new_runtime_session_id()
    ready = shake_hands(ClientHandshake("t", TOKEN, session_id), ServerHandshake(TOKEN))
    assert ready.runtime_session_id == session_id


@pytest.mark.parametrize(
    ("client", "server", "common"),
    [((1, 1), (1, 1), 1), ((1, 3), (2, 5), 3), ((2, 2), (1, 1), None), ((1, 1), (2, 3), None), ((0, 0), (1, 1), None)],
    ids=["same", "overlap", "newer client", "newer server", "older client"],
)
def test_versions_without_a_common_one_are_refused(
    client: tuple[int, int], server: tuple[int, int], common: int | None
) -> None:
    sides = ClientHandshake("t", TOKEN, versions=Versions(*client)), ServerHandshake(TOKEN, Versions(*server))
    if common is not None:
        assert shake_hands(*sides).version == common
        return
    with pytest.raises(HandshakeError, match="version") as error:
        shake_hands(*sides)
    assert error.value.reason == "version"


@pytest.mark.parametrize(
    ("client", "server"), [(OTHER, TOKEN), (None, TOKEN), (TOKEN, None)], ids=["wrong", "client without", "server without"]
)
def test_token_that_is_not_shared_is_refused(client: str | None, server: str | None) -> None:
    with pytest.raises(HandshakeError) as error:
        shake_hands(ClientHandshake("t", client), ServerHandshake(server))
    assert error.value.reason == "proof"


def test_token_is_in_no_message() -> None:
    client, server = ClientHandshake("t", TOKEN), ServerHandshake(TOKEN)
    hello = client.hello()
    challenge = server.receive(hello)
    proof = client.receive(challenge)
    assert isinstance(proof, bytes)
    sent = hello + challenge + proof + server.receive(proof)
    assert TOKEN.encode() not in sent
    assert token_name(TOKEN).encode() not in sent


def test_proof_of_one_connection_is_refused_in_another() -> None:
    client, server = ClientHandshake("t", TOKEN), ServerHandshake(TOKEN)
    hello = client.hello()
    proof = client.receive(server.receive(hello))
    assert isinstance(proof, bytes)
    another = ServerHandshake(TOKEN)
    another.receive(hello)  # the same nonce of the client, and another one of the server
    with pytest.raises(HandshakeError) as error:
        another.receive(proof)
    assert error.value.reason == "proof"


def test_proof_of_the_client_is_not_accepted_as_that_of_the_server() -> None:
    client, server = ClientHandshake("t", TOKEN), ServerHandshake(TOKEN)
    challenge = server.receive(client.hello())
    proof = client.receive(challenge)
    assert isinstance(proof, bytes)
    ready = server.receive(proof)
    with pytest.raises(HandshakeError) as error:
        client.receive(edit(ready, proof=json.loads(proof)["proof"]))
    assert error.value.reason == "proof"


@pytest.mark.parametrize("field", ["versions", "nonce", "trace_id", "capabilities"])
def test_changed_first_message_makes_the_proofs_differ(field: str) -> None:
    changes: dict[str, Any] = {"versions": [0, 1], "nonce": "0" * 64, "trace_id": "other", "capabilities": []}
    client, server = ClientHandshake("t", TOKEN), ServerHandshake(TOKEN)
    proof = client.receive(server.receive(edit(client.hello(), **{field: changes[field]})))
    assert isinstance(proof, bytes)
    with pytest.raises(HandshakeError) as error:
        server.receive(proof)
    assert error.value.reason == "proof"


@pytest.mark.parametrize("field", ["version", "runtime_session_id", "capabilities"])
def test_changed_last_message_is_refused(field: str) -> None:
    changes: dict[str, Any] = {"version": 2, "runtime_session_id": new_runtime_session_id(), "capabilities": ["x"]}
    client, server = ClientHandshake("t", TOKEN), ServerHandshake(TOKEN)
    proof = client.receive(server.receive(client.hello()))
    assert isinstance(proof, bytes)
    with pytest.raises(HandshakeError) as error:
        client.receive(edit(server.receive(proof), **{field: changes[field]}))
    assert error.value.reason == "proof"


def test_ready_without_a_challenge_is_no_proof() -> None:
    client, server = ClientHandshake("t", TOKEN), ServerHandshake(None)
    with pytest.raises(HandshakeError) as error:
        client.receive(server.receive(client.hello()))
    assert error.value.reason == "proof"


_JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=20), lambda x: st.lists(x, max_size=3))
_NAMES = ["protocol", "versions", "nonce", "trace_id", "runtime_session_id", "challenge", "proof", "ready", "version", "reason"]


@given(st.binary(max_size=200) | st.dictionaries(st.sampled_from(_NAMES), _JSON).map(lambda value: json.dumps(value).encode()))
def test_any_line_is_answered_or_refused(text: bytes) -> None:
    line = text.replace(b"\n", b"") + b"\n"
    for side in (ServerHandshake(TOKEN), ServerHandshake(None), ClientHandshake("t", TOKEN), ClientHandshake("t", None)):
        with suppress(HandshakeError):
            side.receive(line)
