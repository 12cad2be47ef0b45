"""A tour through a device, key by key."""

from __future__ import annotations

from fixtures.transcripts.device import TranscriptDevice
from fixtures.transcripts.transcript import Question, Step, Transcript
from ptyctl.simulator.actions import Action, Output
from ptyctl.simulator.terminal import PagerInput


def said(actions: list[Action]) -> str:
    return b"".join(action.data for action in actions if isinstance(action, Output)).decode()


class Tour:
    """Types what a person would, and keeps what was typed and what was said."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.device = TranscriptDevice(transcript)
        self.keys = ""
        self.text = said(self.device.start())

    def type(self, keys: str) -> str:
        """What appears."""
        self.keys += keys
        text = said(self.device.feed(keys.encode()))
        self.text += text
        return text

    def answer(self, questions: tuple[Question, ...]) -> str:
        return "".join(self.type(one.first_answer + ("" if one.key else "\r")) for one in questions)

    def log_in(self) -> str:
        login = self.transcript.login
        text = self.answer(login.before)
        if login.usernames:
            text += self.type(f"{login.usernames[0]}\r")
        return text + self.type(f"{login.password}\r") + self.answer(login.after)

    def run(self, step: Step) -> str:
        text = self.type(f"{step.line}\r") + self.answer(step.questions)
        while isinstance(self.device.input, PagerInput):
            text += self.type(" ")
        return text

    def whole(self) -> Tour:
        """From the login to the end."""
        self.log_in()
        for step in self.transcript.steps():
            self.run(step)
        return self
