"""What counts as the prompt of the program in the foreground."""

from __future__ import annotations

import pytest

from ptyctl.platforms.device_profile import UNKNOWN_DEVICE
from ptyctl.session.io.prompt import Prompt


@pytest.mark.parametrize(("learned", "certainty"), [("new?", "exact"), (" ", None), ("", None)])
def test_learned_prompt_of_blanks_is_no_certain_prompt(learned: str, certainty: str | None) -> None:
    """zsh fills a line with blanks before each prompt, so that a blank is shown before the prompt is."""
    prompt = Prompt()
    prompt.learn(learned)
    assert prompt.match(learned, UNKNOWN_DEVICE) == certainty
