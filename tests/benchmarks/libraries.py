"""The libraries people use today, opened as their manuals say; each with its own defaults for speed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from .contest import Unavailable

Call = Callable[[], Awaitable[str]]

_NETMIKO_ATTEMPTS = 3


@contextmanager
def scrapli_cli(host: str, port: int, prompt: str, transport: str, **auth: str) -> Iterator[Any]:
    """scrapli's Cli. Its own loop runs in a thread of its library; the blocking calls are the faster ones, so those are used.

    Args:
        prompt: a pattern for the whole last line.
        transport: telnet, or ssh2 (the library's own SSH).
        auth: fields of scrapli's AuthOptions.
    """
    try:
        import scrapli
        from scrapli.cli import LoadedDefinition
    except ImportError as error:
        raise Unavailable(str(error)) from None
    definition = (
        f"---\nprompt_pattern: '{prompt}'\ndefault_mode: 'exec'\nmodes:\n  - name: 'exec'\n    prompt_pattern: '{prompt}'\n"
    )
    cli = scrapli.Cli(
        host,
        port=port,
        definition_file_or_name=LoadedDefinition("bench", definition),
        auth_options=scrapli.AuthOptions(**auth),
        transport_options=scrapli.TransportTelnetOptions() if transport == "telnet" else scrapli.TransportSsh2Options(),
    )
    with cli:
        yield cli


@asynccontextmanager
async def scrapli_call(
    host: str, port: int, command: str, prompt: str, transport: str, first: str = "", **auth: str
) -> AsyncIterator[Call]:
    """One command; `first` is run before measuring. The rest is as for `scrapli_cli`."""
    with scrapli_cli(host, port, prompt, transport, **auth) as cli:
        if first:
            cli.send_input(input_=first)

        async def call() -> str:
            return str(cli.send_input(input_=command).result)

        yield call


@contextmanager
def netmiko_connection(**fields: Any) -> Iterator[Any]:
    """netmiko's connection; `fields` are those of ConnectHandler."""
    try:
        import netmiko
    except ImportError as error:
        raise Unavailable(str(error)) from None
    # Its Telnet login is timed by sleeps: on a busy machine it can press Enter once too often for zebra, which hangs up.
    for attempt in range(_NETMIKO_ATTEMPTS):
        try:
            connection = netmiko.ConnectHandler(**fields)
            break
        except EOFError:
            if attempt + 1 == _NETMIKO_ATTEMPTS:
                raise
    with connection:
        yield connection


@asynccontextmanager
async def netmiko_call(command: str, first: str = "", **fields: Any) -> AsyncIterator[Call]:
    """`send_command`, which sleeps between looks at the channel.

    Args:
        first: a command to run before measuring, after which the prompt is another.
        fields: of ConnectHandler.
    """
    with netmiko_connection(**fields) as connection:
        if first:
            connection.send_command_timing(first)
            connection.set_base_prompt()

        async def call() -> str:
            return str(connection.send_command(command))

        yield call


@contextmanager
def pexpect_bash() -> Iterator[Any]:
    """`replwrap.bash()`: a bash whose prompt is unique, and a `run_command`."""
    try:
        from pexpect import replwrap
    except ImportError as error:
        raise Unavailable(str(error)) from None
    shell = replwrap.bash()
    try:
        yield shell
    finally:
        shell.child.close(force=True)


@contextmanager
def pexpect_spawned(argv: Sequence[str]) -> Iterator[Any]:
    """A spawned program, with no pause before a send."""
    try:
        import pexpect
    except ImportError as error:
        raise Unavailable(str(error)) from None
    child = pexpect.spawn(argv[0], list(argv[1:]), timeout=120)
    child.delaybeforesend = None
    try:
        yield child
    finally:
        child.close(force=True)
