"""Logins at a real telnetd whose login program is slow, and refuses."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fixtures.servers.telnetd import running_telnetd
from ptyctl import ErrorCode, LocalController, SessionHandle
from tests.controller.session_calls import refused
from tests.integration.concurrent_cases import run_cases

#: Asks until the password is right, and records each attempt. PASSWORD_CHECK_S is the time that the check takes.
LOGIN = r"""
while :; do
  printf 'host login: '; read -r user || exit
  stty -echo; printf 'Password: '; read -r password || exit; stty echo; echo
  echo "$user:$password" >> {attempts}
  sleep {check_s}
  [ "$password" = right ] && break
  printf '\nLogin incorrect\n'
done
PS1='host$ ' exec /bin/bash --norc --noprofile --noediting -i
"""

#: Asks for the password once, and then shows its prompt after each line.
MENU = r"""
printf 'login: '; read -r user
stty -echo; printf 'Password: '; read -r password; stty echo; echo
while printf '%s' '{prompt}'; read -r line; do [ -z "$line" ] || echo "ran $line"; done
"""


async def check_slow_login(controller: LocalController, folder: Path, password: str) -> None:
    folder.mkdir()
    attempts = folder / "attempts"
    async with running_telnetd(folder, LOGIN.format(attempts=attempts, check_s=4)) as server:
        target = {"protocol": "telnet", "host": server.host, "port": server.port, "platform": "linux"}
        if password == "right":
            async with await SessionHandle.open(controller, **target, username="ann", auth={"password": password}) as handle:
                assert (await handle.exec("echo in")).stdout == "in\n"
        else:
            with refused(ErrorCode.AUTH_FAILED, "the far end asks again, 'host login:'"):
                await SessionHandle.open(controller, **target, username="ann", auth={"password": password})
    assert attempts.read_text() == f"ann:{password}\n"


async def test_slow_login_gets_exactly_one_attempt(controller: LocalController, tmp_path: Path) -> None:
    await run_cases({word: partial(check_slow_login, controller, tmp_path / word, word) for word in ("right", "wrong")})


@pytest.mark.parametrize("prompt", ["Menu [1-9]: ", "Select: "])
async def test_unknown_device_with_colon_prompt_is_logged_in(controller: LocalController, tmp_path: Path, prompt: str) -> None:
    async with running_telnetd(tmp_path, MENU.format(prompt=prompt)) as server:
        target = {"protocol": "telnet", "host": server.host, "port": server.port, "platform": "generic"}
        async with await SessionHandle.open(controller, **target, username="ann", auth={"password": "secret"}) as handle:
            reply = await handle.exec("1", timeout_ms=20_000)
            assert (reply.stdout, reply.done_reason) == ("ran 1\n", "prompt")
