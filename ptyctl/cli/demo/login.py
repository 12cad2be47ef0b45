"""Logs in on a console as an agent does: reads until it is asked, answers, looks where it is."""

from __future__ import annotations

from .agent import Agent, DemoFailed
from .device import Device

_ASKED = r"(?i)(?:username|login): ?$|password: ?$|[\w)][>#] ?$"
_MOST_QUESTIONS = 8


async def log_in(agent: Agent, device: Device, cursor: str) -> None:
    """From the first prompt to the privileged mode, where a password for it was given.

    Raises:
        DemoFailed: a password is missing or wrong, or the device says nothing that is understood.
    """
    asked_for_enable = False
    answered: set[str] = set()
    for _ in range(_MOST_QUESTIONS):
        reply = await agent.call("ptyctl_session_io", action="read", cursor=cursor, until_regex=_ASKED, timeout_ms=10_000)
        cursor, last = reply["next_cursor"], reply["chunk"].rstrip().rpartition("\n")[2]
        if not reply["matched"]:
            raise DemoFailed(f"the device shows no login and no prompt; the last it said was {last!r}")
        if last.endswith("#") or (last.endswith(">") and (asked_for_enable or device.enable is None)):
            return
        if last.endswith(">"):
            asked_for_enable = True
            await _answer(agent, "enable", None)
            continue
        question = "username" if "password" not in last.lower() else "enable" if asked_for_enable else "password"
        if question in answered:
            raise DemoFailed(f"the device asked for the {question} again: it is wrong; give the right one")
        answered.add(question)
        await _answer(agent, getattr(device, question), question)


async def _answer(agent: Agent, text: str | None, question: str | None) -> None:
    if text is None:
        raise DemoFailed(f"the device asks for a {question}; give it with --{question}")
    secret = question in ("password", "enable")
    shown = {"password": "the password, marked sensitive", "enable": "the enable password, marked sensitive"}
    await agent.say(f"types {shown.get(question or '', text)}")
    await agent.call("ptyctl_session_io", action="write", data=f"{text}\n", sensitive=secret)
