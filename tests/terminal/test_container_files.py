"""The files of container/: the scripts, the definition of the image, and its steps in a clean environment."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from fixtures.servers.programs import free_port, require, require_program

ROOT = Path(__file__).parents[2]
CONTAINER = ROOT / "container"
TOKEN = "t" * 43
PREFIX = "PM_INTERACTIVE_TERMINAL_"
#: The variables of section 9.5 of the contract.
CHECKLIST = {
    "PM_RUNNING_IN_CONTAINER", "PM_TERM_ADAPTER_MODE",
    *(PREFIX + n for n in ("HOST_ALIAS", "HOST_FALLBACK_ALIAS", "HOST_PORT", "CONNECT_TIMEOUT_MS", "REQUEST_TIMEOUT_MS")),
}  # fmt: skip


def run(script: str, *arguments: str, path: str = "/usr/bin:/bin", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script; names of variables without `PM_` get the prefix of the bridge's."""
    shell = require_program("dash" if script == "entrypoint.sh" else "bash", "dash bash")
    given = {name if name.startswith(("PM_", "PTYCTL_", "CONTAINER_")) else PREFIX + name: v for name, v in variables.items()}
    command = [shell, str(CONTAINER / script), *arguments]
    return subprocess.run(command, env={"PATH": path, **given}, capture_output=True, text=True, timeout=60, check=False)


def test_entrypoint_exports_the_defaults_and_starts_the_command() -> None:
    done = run("entrypoint.sh", "sh", "-c", "env; exit 7", TOKEN=TOKEN, HOST_PORT="1234")
    assert (done.returncode, done.stderr) == (7, "")
    environment = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert set(environment) >= CHECKLIST
    assert environment[PREFIX + "HOST_ALIAS"] == "host.containers.internal"
    assert (environment[PREFIX + "HOST_PORT"], environment["PM_TERM_ADAPTER_MODE"]) == ("1234", "auto")


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        pytest.param({}, [PREFIX + "TOKEN_FILE is missing"], id="spec-7.3-4 no token"),
        pytest.param({"TOKEN": "short"}, [PREFIX + "TOKEN"], id="short token"),
        pytest.param({"TOKEN_FILE": "/nonexistent"}, [PREFIX + "TOKEN_FILE"], id="unreadable token"),
        pytest.param({"TOKEN": TOKEN, "HOST_PORT": "http"}, [PREFIX + "HOST_PORT"], id="spec-7.3-3 port that is no number"),
        pytest.param({"TOKEN": TOKEN, "HOST_PORT": "65536"}, [PREFIX + "HOST_PORT"], id="port out of range"),
        pytest.param({"TOKEN": TOKEN, "PM_TERM_ADAPTER_MODE": "x"}, ["PM_TERM_ADAPTER_MODE"], id="unknown mode"),
        pytest.param(
            {"CONNECT_TIMEOUT_MS": "0", "REQUEST_TIMEOUT_MS": "9999999999"},
            [PREFIX + "CONNECT_TIMEOUT_MS", PREFIX + "REQUEST_TIMEOUT_MS", PREFIX + "TOKEN_FILE"],
            id="all at once",
        ),
    ],
)
def test_entrypoint_prints_what_is_wrong_and_starts_nothing(variables: dict[str, str], named: list[str]) -> None:
    done = run("entrypoint.sh", "echo", "started", **variables)
    assert (done.returncode, done.stdout) == (78, "")
    lines = done.stderr.splitlines()
    assert len(lines) == len(named) + 1
    assert all(name in line for name, line in zip(named, lines, strict=False))
    assert "short" not in done.stderr


@pytest.mark.parametrize("variables", [{"PM_TERM_ADAPTER_MODE": "bundled"}, {"PM_RUNNING_IN_CONTAINER": "false"}])
def test_entrypoint_without_the_bridge_needs_no_token(variables: dict[str, str]) -> None:
    assert run("entrypoint.sh", "echo", "started", **variables).stdout == "started\n"


@pytest.fixture
def engine(tmp_path: Path) -> dict[str, str]:
    """Return variables with an engine that prints its arguments, and a token."""
    (tmp_path / "podman").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "podman").chmod(0o755)
    (tmp_path / "token").write_text(TOKEN)
    return {"CONTAINER_ENGINE": str(tmp_path / "podman"), "TOKEN_FILE": str(tmp_path / "token")}


@pytest.mark.parametrize("row", ["spec-7.3-5 spec-7.3-6 spec-9.5-2"])
async def test_run_script_maps_the_aliases_and_passes_port_and_variables(engine: dict[str, str], row: str) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = str(server.sockets[0].getsockname()[1])
    done = await asyncio.to_thread(run, "run.sh", "ptyctl", "version", HOST_PORT=port, HOST_ALIAS="gateway", **engine)
    server.close()
    assert (done.returncode, done.stderr) == (0, "")
    arguments = done.stdout.splitlines()
    assert arguments[-3:] == ["ptyctl", "ptyctl", "version"]
    added = [value for option, value in itertools.pairwise(arguments) if option == "--add-host"]
    assert added == ["host.containers.internal:host-gateway", "host.docker.internal:host-gateway"]
    passed = [value for option, value in itertools.pairwise(arguments) if option == "--env"]
    assert {f"{PREFIX}HOST_PORT={port}", f"{PREFIX}HOST_ALIAS=gateway"} <= set(passed)
    assert TOKEN not in done.stdout
    assert arguments[arguments.index("--userns") :][:2] == ["--userns", "keep-id"]


@pytest.mark.parametrize(
    ("name", "address", "warned"),
    [("docker", "127.0.0.1", True), ("podman", "127.0.0.1", False), ("docker", "172.17.0.1", False)],
)
def test_run_script_warns_of_a_loopback_bridge_with_docker(
    engine: dict[str, str], tmp_path: Path, name: str, address: str, warned: bool
) -> None:
    program = (tmp_path / "podman").rename(tmp_path / name)
    # An invalid port ends the check of the port at once.
    variables = {**engine, "CONTAINER_ENGINE": str(program), "PTYCTL_BRIDGE_ADDRESS": address}
    assert ("containers of docker do not reach" in run("run.sh", HOST_PORT="99999", **variables).stderr) == warned


@pytest.mark.parametrize("row", ["spec-7.3-7"])
def test_run_script_warns_if_the_bridge_cannot_be_reached(engine: dict[str, str], row: str) -> None:
    port = str(free_port())
    done = run("run.sh", HOST_PORT=port, **engine)
    assert done.returncode == 0
    assert f"warning: nothing listens at 127.0.0.1:{port}" in done.stderr
    assert "run" in done.stdout.splitlines()


@pytest.mark.parametrize("variables", [{}, {"TOKEN_FILE": "/nonexistent"}, {"HOST_PORT": "1; id"}])
def test_run_script_without_valid_settings_starts_nothing(engine: dict[str, str], variables: dict[str, str]) -> None:
    given = {**engine, **variables} if variables else {"CONTAINER_ENGINE": engine["CONTAINER_ENGINE"]}
    done = run("run.sh", **given)
    assert (done.returncode, done.stdout) == (78, "")


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile."""
    text = re.sub(r"^#.*\n", "", (CONTAINER / "Containerfile").read_text(), flags=re.M).replace("\\\n", " ")
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in text.splitlines()) if name]


@pytest.mark.parametrize("row", ["spec-7.3-1 spec-7.3-2"])
def test_image_has_a_user_a_health_check_and_defaults_without_host_names(row: str) -> None:
    steps = instructions()
    names = [name for name, _ in steps]
    assert names == ["ARG", "FROM", "COPY", "RUN", "RUN", "COPY", "ENV", "USER", "WORKDIR", "HEALTHCHECK", "ENTRYPOINT", "CMD"]
    values = dict(steps)
    assert "slim" in values["ARG"]
    assert values["USER"] not in ("root", "0")
    assert values["ENTRYPOINT"] == '["/usr/local/bin/ptyctl-entrypoint"]'
    defaults = dict(each.split("=", 1) for each in values["ENV"].split())
    assert set(defaults) == CHECKLIST - {PREFIX + "HOST_ALIAS", PREFIX + "HOST_FALLBACK_ALIAS"}
    assert "preflight" in values["HEALTHCHECK"]


@pytest.mark.parametrize("row", ["spec-9.5-1 spec-9.5-2"])
def test_compose_file_has_the_checklist(row: str) -> None:
    service: dict[str, Any] = yaml.safe_load((CONTAINER / "compose.yaml").read_text())["services"]["ptyctl"]
    assert set(service["environment"]) >= CHECKLIST
    assert service["extra_hosts"] == ["host.containers.internal:host-gateway", "host.docker.internal:host-gateway"]
    assert (CONTAINER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    assert TOKEN not in service["environment"]


@pytest.mark.parametrize(("variables", "user"), [({}, None), ({"PTYCTL_UID": ""}, None), ({"PTYCTL_UID": "1234"}, "1234")])
def test_compose_file_runs_as_the_given_user_or_that_of_the_image(variables: dict[str, str], user: str | None) -> None:
    text = (CONTAINER / "compose.yaml").read_text()
    # Interpolation of the Compose specification: the default of a variable that is unset or empty.
    text = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda match: variables.get(match[1]) or match[2], text)
    service = yaml.safe_load(text)["services"]["ptyctl"]
    assert service["user"] == (user or dict(instructions())["USER"])
    assert service["environment"]["HOME"] == "/tmp"  # another user than the image's has no other folder to write


async def test_steps_of_the_image_in_a_clean_environment_start_the_command(tmp_path: Path) -> None:
    """The wheel is built and installed as in the Containerfile, with dependencies of this environment: no network is needed."""
    require(importlib.util.find_spec("hatchling") is not None, "hatchling is not installed: pip install -e '.[ci]'")
    environment = {**os.environ, "HATCH_BUILD_NO_HOOKS": "true"}

    async def run_step(*command: str, **variables: str) -> str:
        step = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env={**environment, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        output = (await step.communicate())[0].decode()
        assert step.returncode == 0, output
        return output

    await run_step(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist"))
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    python = tmp_path / "venv" / "bin" / "python"
    await run_step(sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv"))
    (packages,) = (tmp_path / "venv" / "lib").glob("*/site-packages")
    install = next(step for name, step in instructions() if name == "RUN")
    assert install.startswith("python -m pip install ")
    await run_step(
        sys.executable, "-m", "pip", "--python", str(python), "install", "-qq", "--no-index", "--no-deps", "--no-compile",
        "--disable-pip-version-check", str(wheel),
    )  # fmt: skip
    # The dependencies, but not the editable ptyctl, of this environment.
    dependencies = Path(importlib.util.find_spec("pydantic").origin).parents[1]  # type: ignore[union-attr, arg-type]
    (packages / "dependencies.pth").write_text(f"{dependencies}\n")
    script = python.with_name("ptyctl")
    variables = {"PM_INTERACTIVE_TERMINAL_TOKEN": TOKEN, "PATH": f"{python.parent}:/usr/bin:/bin"}
    output = await run_step(str(CONTAINER / "entrypoint.sh"), script.name, "version", **variables)
    assert output.startswith("ptyctl ")
    located = await run_step(str(python), "-P", "-c", "import ptyctl; print(ptyctl.__file__)", PYTHONPATH="")
    assert located.strip().startswith(str(packages))
