"""Each family's file against the family's transcript, which was written without it: logins, modes, and output that is none."""

from __future__ import annotations

import pytest
import re2

from fixtures.transcripts.device import TranscriptDevice
from fixtures.transcripts.transcript import Question, Transcript, load_transcript, transcript_names
from ptyctl.api.errors import ErrorCode
from ptyctl.core.renderer import render
from ptyctl.platforms import ModeGraph, Platform, Platforms, QuestionAnswer, ShownPrompt
from ptyctl.platforms.pattern import Pattern
from ptyctl.platforms.platform import USERNAME
from ptyctl.session.device.login_dialog import LoginAction, LoginDialog, LoginLayer
from ptyctl.simulator.terminal import SendOutput, TerminalAction
from tests.platforms.shown_lines import ShownLines

PLATFORMS = Platforms()


class Terminal:
    """A session on a transcript's device; all that it shows is there at once."""

    def __init__(self, told: Transcript) -> None:
        self.told = told
        self.platform: Platform = PLATFORMS.get(told.platform)
        self.device = TranscriptDevice(told)
        self.shown = ShownLines()
        self._take(self.device.start())

    def type(self, text: str, *, enter: bool = True) -> None:
        self.shown.typed()
        self._take(self.device.feed((text + ("\r" if enter else "")).encode()))

    def prompt(self) -> ShownPrompt | None:
        return self.platform.profile.shown_prompt(self.shown.lines())

    def secret(self, name: str | None) -> str:
        return (self.told.enable_secret or "") if name == "enable" else self.told.login.password

    def log_in(self, password: str | None = None) -> LoginAction:
        """Does what a login says until it is over."""
        login = LoginDialog([LoginLayer(self.platform, True, True)])
        for _ in range(50):
            action = login.heard(self.shown.text())
            if action.kind == "wait":
                action = login.closed() if self.device.closed else login.silent(self.shown.text())
            if action.kind in ("done", "failed"):
                return action
            text = action.text
            if action.kind == "username":
                text = self.told.login.usernames[0] + text
            elif action.kind == "secret":
                text = password or self.secret(action.secret)
            self.type(text, enter=action.enter)
        raise AssertionError("the login does not end")

    def run(self, line: str, dialog: tuple[QuestionAnswer, ...] = ()) -> None:
        """Types a line, and answers what the dialogue knows and the pager asks."""
        self.type(line)
        while not self.device.closed and self.prompt() is None:
            line = self.shown.lines()[-1]
            pager = next((pager for pager in self.platform.pagers if pager.pattern.matches(line)), None)
            if pager is not None:
                self.type(pager.key, enter=False)
                continue
            answer = next((answer for answer in dialog if answer.match.matches(line)), None)
            assert answer is not None, f"nobody answers {line!r}"
            sent = answer.send if answer.send is not None else self.secret(answer.secret)
            self.type(sent.replace(USERNAME, "".join(self.told.login.usernames[:1])), enter=answer.enter)

    def _take(self, actions: list[TerminalAction]) -> None:
        for action in actions:
            if isinstance(action, SendOutput):
                self.shown.add(action.data)


def known_as(told: Transcript, mode: str) -> str:
    return told.modes[mode].platform_mode or mode


@pytest.fixture(params=transcript_names())
def told(request: pytest.FixtureRequest) -> Transcript:
    return load_transcript(request.param)


def test_a_login(told: Transcript) -> None:
    done = Terminal(told).log_in()
    assert (done.kind, done.mode) == ("done", known_as(told, told.start))


def test_a_wrong_password(told: Transcript) -> None:
    refused = Terminal(told).log_in("wrong")
    assert (refused.kind, refused.code) == ("failed", ErrorCode.AUTH_FAILED)
    assert refused.prompt == told.login.password_prompt.split("\n")[-1].strip()


def test_the_way_home(told: Transcript) -> None:
    """From where the login ends to where commands run."""
    terminal = Terminal(told)
    graph, mode = ModeGraph(terminal.platform), terminal.log_in().mode
    assert mode is not None
    for step in graph.path_home(mode) or ():
        for command in step.transition.commands:
            terminal.run(command, step.transition.dialog)
        mode = step.target
        shown = terminal.prompt()
        assert shown is not None
        assert shown.mode == mode
    assert mode in terminal.platform.home


def test_a_left_over_configuration_is_left_by_the_next_login(told: Transcript) -> None:
    """The tour is broken off where it would leave its configuration; the next user's login begins right there."""
    terminal, steps = Terminal(told), list(told.steps())
    configures = [step.mode is not None and terminal.platform.modes[known_as(told, step.mode)].config for step in steps]
    if not any(configures):
        assert told.platform in ("linux", "mikrotik_routeros")  # they have no mode for it
        return
    terminal.log_in()
    leaving = configures.index(False, configures.index(True))
    for step in steps[:leaving]:
        terminal.run(step.line, tuple(map(answer_to, step.questions)))
    done = terminal.log_in()
    assert done.kind == "done"
    if steps[leaving].questions:  # it holds what was not committed: whose that is is not known
        assert "commit or drop it" in done.why
        assert done.mode not in terminal.platform.home
    else:
        assert not done.why
        assert done.mode in terminal.platform.home


def test_no_line_of_output_is_a_prompt(told: Transcript) -> None:
    profile = PLATFORMS.get(told.platform).profile
    texts = [told.login.greeting, told.login.welcome, *(step.output for step in told.steps())]
    taken = [line for text in texts for line in text.split("\n") if profile.shown_prompt(["", line]) is not None]
    assert taken == ([] if told.platform != "cisco_ios" else ["edge-sw1#"])  # the banner holds the very prompt


def test_no_question_is_a_prompt(told: Transcript) -> None:
    profile = PLATFORMS.get(told.platform).profile
    asked = [*told.login.before, *told.login.after, *(question for step in told.steps() for question in step.questions)]
    assert [question for question in asked if profile.shown_prompt(question.prompt.split("\n")) is not None] == []


def test_the_whole_tour_is_read_with_the_familys_pager(told: Transcript) -> None:
    """Every line is answered by a prompt of its mode, through all pages; a question gets the transcript's own answer."""
    terminal = Terminal(told)
    terminal.log_in()
    for step in told.steps():
        terminal.run(step.line, tuple(map(answer_to, step.questions)))
        if step.mode is None:
            assert terminal.device.closed
            return
        shown = terminal.prompt()
        assert shown is not None
        assert shown.mode == known_as(told, step.mode)


def answer_to(question: Question) -> QuestionAnswer:
    last_line = render(question.prompt.encode(), 1000).split("\n")[-1].strip()
    return QuestionAnswer(match=Pattern.of(re2.escape(last_line)), send=question.first_answer, enter=not question.key)
