"""Other libraries (scrapli, netmiko, pexpect), opened as their manuals describe, with their default settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from .measurement import Unavailable

Call = Callable[[], Awaitable[str]]

_NETMIKO_ATTEMPTS = 3


@contextmanager
def scrapli_cli(host: str, port: int, prompt: str, transport: str, **auth: str) -> Iterator[Any]:
    """Yield scrapli's Cli. Its event loop runs in a thread; the blocking calls are used because they are faster.

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


@contextmanager
def scrapli_platform(platform: str, host: str, port: int, username: str, password: str, enable_secret: str) -> Iterator[Any]:
    """Yield scrapli's Cli with its own definition of a platform, over Telnet."""
    try:
        import scrapli
    except ImportError as error:
        raise Unavailable(str(error)) from None
    lookups = [scrapli.LookupKeyValue(key="enable", value=enable_secret)]
    cli = scrapli.Cli(
        host,
        port=port,
        definition_file_or_name=platform,
        auth_options=scrapli.AuthOptions(username=username, password=password, lookups=lookups),
        transport_options=scrapli.TransportTelnetOptions(),
    )
    with cli:
        yield cli


@asynccontextmanager
async def scrapli_call(
    host: str, port: int, command: str, prompt: str, transport: str, first: str = "", **auth: str
) -> AsyncIterator[Call]:
    """Yield a call that runs `command`. `first` is run before; for the other arguments see `scrapli_cli`."""
    with scrapli_cli(host, port, prompt, transport, **auth) as cli:
        if first:
            cli.send_input(input_=first)

        async def call() -> str:
            return str(cli.send_input(input_=command).result)

        yield call


@contextmanager
def netmiko_connection(**fields: Any) -> Iterator[Any]:
    """Yield netmiko's connection; `fields` are those of ConnectHandler."""
    try:
        import netmiko
    except ImportError as error:
        raise Unavailable(str(error)) from None
    # Its Telnet login relies on sleeps: on a busy machine it can send Enter too often, and zebra disconnects.
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
    """Yield a call of `send_command`, which polls the channel with sleeps.

    Args:
        first: a command to run before measuring; it changes the prompt.
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
    """Yield `replwrap.bash()`, a bash with a unique prompt and `run_command`."""
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
    """Yield a spawned program, without a delay before sends."""
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
