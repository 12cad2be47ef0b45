"""One question to a daemon that is up, of the standard library alone: for what has to be quick, as a list of sessions."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

from .hello import greet, hello
from .place import Place


class Refused(Exception):
    """The daemon's answer is an error; the message says why."""


def ask(place: Place, method: str, params: dict[str, Any], *, start: bool = False) -> dict[str, Any] | None:
    """The reply's fields, or None where no daemon is up, and none was to be started.

    Raises:
        HelloRefused, NotStarted, Refused
    """
    try:
        link = greet(place, hello("rpc"), start=start)
    except ConnectionRefusedError:
        return None
    with closing(link), link.makefile("rwb") as stream:
        stream.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
        stream.flush()
        line = stream.readline()
    if not line:
        return None
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise Refused(answer["error"]["message"])
    reply: dict[str, Any] = answer["result"]["reply"]
    return reply
