"""Platform files checked against the transcripts: logins, modes, prompts and pagers."""

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


class TranscriptSession:
    """A session on a transcript's device, without a connection."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.platform: Platform = PLATFORMS.get(transcript.platform)
        self.device = TranscriptDevice(transcript)
        self.shown = ShownLines()
        self._take(self.device.start())

    def type(self, text: str, *, enter: bool = True) -> None:
        self.shown.typed()
        self._take(self.device.feed((text + ("\r" if enter else "")).encode()))

    def prompt(self) -> ShownPrompt | None:
        return self.platform.profile.shown_prompt(self.shown.lines())

    def secret(self, name: str | None) -> str:
        return (self.transcript.enable_secret or "") if name == "enable" else self.transcript.login.password

    def log_in(self, password: str | None = None) -> LoginAction:
        """Perform the actions of the login dialog until it ends."""
        login = LoginDialog([LoginLayer(self.platform, True, True)])
        for _ in range(50):
            action = login.heard(self.shown.text())
            if action.kind == "wait":
                action = login.closed(self.shown.text()) if self.device.closed else login.silent(self.shown.text())
            if action.kind in ("done", "failed"):
                return action
            text = action.text
            if action.kind == "username":
                text = self.transcript.login.usernames[0] + text
            elif action.kind == "secret":
                text = password or self.secret(action.secret)
            self.type(text, enter=action.enter)
        raise AssertionError("the login does not end")

    def run(self, line: str, dialog: tuple[QuestionAnswer, ...] = ()) -> None:
        """Type a line, and answer its questions and the pager."""
        self.type(line)
        while not self.device.closed and self.prompt() is None:
            line = self.shown.lines()[-1]
            pager = next((pager for pager in self.platform.pagers if pager.pattern.matches(line)), None)
            if pager is not None:
                self.type(pager.key, enter=False)
                continue
            answer = next((answer for answer in dialog if answer.match.matches(line)), None)
            assert answer is not None, f"no answer to {line!r}"
            sent = answer.send if answer.send is not None else self.secret(answer.secret)
            self.type(sent.replace(USERNAME, "".join(self.transcript.login.usernames[:1])), enter=answer.enter)

    def _take(self, actions: list[TerminalAction]) -> None:
        for action in actions:
            if isinstance(action, SendOutput):
                self.shown.add(action.data)


@pytest.fixture(params=transcript_names())
def transcript(request: pytest.FixtureRequest) -> Transcript:
    return load_transcript(request.param)


def test_login_reaches_start_mode(transcript: Transcript) -> None:
    done = TranscriptSession(transcript).log_in()
    assert (done.kind, done.mode) == ("done", transcript.platform_mode(transcript.start))


def test_wrong_password_fails_with_prompt(transcript: Transcript) -> None:
    """The prompt is the one that the far end shows after the refusal: of the next attempt."""
    refused = TranscriptSession(transcript).log_in("wrong")
    assert (refused.kind, refused.code) == ("failed", ErrorCode.AUTH_FAILED)
    prompts = (transcript.login.username_prompt, transcript.login.password_prompt)
    assert refused.prompt in [prompt.split("\n")[-1].strip() for prompt in prompts]


def test_path_home_reaches_home_mode(transcript: Transcript) -> None:
    terminal = TranscriptSession(transcript)
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


def test_login_leaves_configuration_of_previous_user(transcript: Transcript) -> None:
    """The tour stops in configuration mode; the next login starts there."""
    terminal, steps = TranscriptSession(transcript), list(transcript.steps())
    configures = [
        step.mode is not None and terminal.platform.modes[transcript.platform_mode(step.mode)].config for step in steps
    ]
    if not any(configures):
        assert transcript.platform in ("linux", "mikrotik_routeros")  # without a configuration mode
        return
    terminal.log_in()
    leaving = configures.index(False, configures.index(True))
    for step in steps[:leaving]:
        terminal.run(step.line, tuple(map(answer_to, step.questions)))
    done = terminal.log_in()
    assert done.kind == "done"
    if steps[leaving].questions:  # uncommitted changes must not be dropped
        assert "commit or drop it" in done.why
        assert done.mode not in terminal.platform.home
    else:
        assert not done.why
        assert done.mode in terminal.platform.home


def test_output_lines_are_not_prompts(transcript: Transcript) -> None:
    profile = PLATFORMS.get(transcript.platform).profile
    texts = [transcript.login.greeting, transcript.login.welcome, *(step.output for step in transcript.steps())]
    taken = [line for text in texts for line in text.split("\n") if profile.shown_prompt(["", line]) is not None]
    assert taken == ([] if transcript.platform != "cisco_ios" else ["edge-sw1#"])  # the banner contains the prompt


def test_questions_are_not_prompts(transcript: Transcript) -> None:
    profile = PLATFORMS.get(transcript.platform).profile
    asked = [
        *transcript.login.before,
        *transcript.login.after,
        *(question for step in transcript.steps() for question in step.questions),
    ]
    assert [question for question in asked if profile.shown_prompt(question.prompt.split("\n")) is not None] == []


def test_whole_tour_ends_at_prompt_of_its_mode(transcript: Transcript) -> None:
    """Each step ends at a prompt of its mode, through all pages and questions."""
    terminal = TranscriptSession(transcript)
    terminal.log_in()
    for step in transcript.steps():
        terminal.run(step.line, tuple(map(answer_to, step.questions)))
        if step.mode is None:
            assert terminal.device.closed
            return
        shown = terminal.prompt()
        assert shown is not None
        assert shown.mode == transcript.platform_mode(step.mode)


def answer_to(question: Question) -> QuestionAnswer:
    last_line = render(question.prompt.encode(), 1000).split("\n")[-1].strip()
    return QuestionAnswer(match=Pattern.of(re2.escape(last_line)), send=question.first_answer, enter=not question.key)
