"""Prompts that end in a colon, on a device that shows its prompt again after Enter; a question is none. On a virtual clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from fixtures.virtual_clock import run_virtually
from ptyctl.api.errors import PtyctlError
from ptyctl.session.session import Session
from tests.session.scripted_session import connect_session, run_command


class Menu(MemoryChannel):
    """Runs each line that is not empty, and shows its prompt."""

    def __init__(self, prompt: str) -> None:
        super().__init__(self._hear)
        self.lines: list[str] = []
        self._line = ""
        self.prompt = prompt.encode()

    def _hear(self, data: bytes) -> bytes:
        shown = b""
        for key in data.decode():
            if key != "\r":
                self._line += key if key.isprintable() else ""
                shown += key.encode() if key.isprintable() else b""
                continue
            ran = f"ran {self._line}\r\n" if self._line else ""
            self.lines.append(self._line)
            self._line, shown = "", shown + b"\r\n" + ran.encode() + self.prompt
        return shown


async def connected(folder: Path, menu: Menu) -> Session:
    session = await connect_session(folder, menu, platform="generic")
    menu.feed(b"Welcome\r\n" + menu.prompt)
    return session


@pytest.mark.parametrize("prompt", ["Select: ", "ftp-like:", "Menu [1-9]: ", "calc? "])
def test_line_shown_again_after_enter_is_learned(prompt: str, tmp_path: Path) -> None:
    async def run() -> None:
        menu = Menu(prompt)
        session = await connected(tmp_path, menu)
        for word in ("one", "two"):
            reply = await run_command(session, word)
            assert (reply.stdout, reply.done_reason, reply.notices) == (f"ran {word}\n", "prompt", None)
        assert menu.lines == ["", "one", "two"]
        await session.close(force=True)

    run_virtually(run())


@pytest.mark.parametrize("question", ["Password: ", "login: ", "Username: ", "Continue? [y/N] ", "Overwrite? [confirm]"])
def test_question_gets_neither_enter_nor_command(question: str, tmp_path: Path) -> None:
    async def run() -> None:
        menu = Menu(question)
        session = await connected(tmp_path, menu)
        for word in ("one", "two"):
            with pytest.raises(PtyctlError) as caught:
                await run_command(session, word)
            assert caught.value.details == {"reason": "question"}
        assert menu.lines == []
        await session.close(force=True)

    run_virtually(run())


def test_question_after_a_learned_colon_prompt_is_a_question(tmp_path: Path) -> None:
    async def run() -> None:
        menu = Menu("Select: ")
        session = await connected(tmp_path, menu)
        await run_command(session, "one")
        menu.prompt = b"Password: "
        reply = await run_command(session, "two")
        assert (reply.done_reason, reply.stdout) == ("question", "ran two\nPassword: ")
        await session.close(force=True)

    run_virtually(run())
