"""Dependencies: upper bounds in pyproject.toml, and hashes in requirements.lock and that of the container."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def requirements(texts: list[str]) -> list[Requirement]:
    """Return the requirements on other projects, with those of the extras of this one that are named."""
    found = []
    for requirement in map(Requirement, texts):
        if requirement.name == PROJECT["name"]:
            found += [each for extra in requirement.extras for each in requirements(EXTRAS[extra])]
        else:
            found.append(requirement)
    return found


def locked(path: str = "requirements.lock") -> dict[str, tuple[Requirement, list[str]]]:
    """Return the packages of a lock file by name, each with the options that follow it."""
    entries = (ROOT / path).read_text().replace("\\\n", " ").splitlines()
    found: dict[str, tuple[Requirement, list[str]]] = {}
    for entry in entries:
        requirement, *options = re.split(r"\s+(?=--)", entry.strip())
        found[canonicalize_name(Requirement(requirement).name)] = Requirement(requirement), options
    return found


def test_each_dependency_has_an_upper_bound() -> None:
    texts = [
        *PYPROJECT["build-system"]["requires"],
        *PROJECT["dependencies"],
        *(text for extra in EXTRAS.values() for text in extra),
    ]
    for requirement in requirements(texts):
        bounds = [Version(bound.version) for bound in requirement.specifier if bound.operator == "<"]
        assert len(bounds) == 1, f"{requirement} has no upper bound"
        # the next major version, or for a major version of 0 the next minor one
        assert len(bounds[0].release) == 1 or bounds[0].major == 0, f"{requirement} is not bounded by a major version"


def test_each_locked_package_has_one_version_and_hashes() -> None:
    packages = locked()
    assert len(packages) > 50
    for requirement, options in packages.values():
        assert [bound.operator for bound in requirement.specifier] == ["=="], requirement
        assert options, f"{requirement} has no hash"
        assert [option for option in options if not _HASH.fullmatch(option)] == [], requirement


def test_each_dependency_that_ci_installs_is_locked_in_an_allowed_version() -> None:
    packages = locked()
    for requirement in requirements([*PROJECT["dependencies"], *EXTRAS["ci"], *PYPROJECT["build-system"]["requires"]]):
        found = packages.get(canonicalize_name(requirement.name))
        assert found is not None, f"{requirement} is not in requirements.lock"
        (version,) = found[0].specifier
        assert requirement.specifier.contains(version.version), f"requirements.lock has {found[0]}, not {requirement}"


def test_each_dependency_of_the_image_is_locked_in_the_version_that_ci_tests() -> None:
    image, tested = locked("container/requirements.lock"), locked()
    assert {canonicalize_name(each.name) for each in requirements(PROJECT["dependencies"])} <= set(image)
    for name, (requirement, hashes) in image.items():
        assert (requirement.specifier, hashes) == (tested[name][0].specifier, tested[name][1]), name
    step = re.search(r"^RUN python -m pip install (.*?[^\\])$", (ROOT / "container/Containerfile").read_text(), re.M | re.S)
    assert step is not None
    first, second, _ = step[1].split("&&")
    assert ("--no-deps --require-hashes -r /tmp/dist/requirements.lock" in first, "--no-deps" in second) == (True, True)


def test_locked_packages_are_installed_without_looking_for_newer_ones() -> None:
    """pip before 23.3 takes the newest version for `name[extra]`, whatever the lock says, and then misses its hash."""
    assert "--no-deps --require-hashes -r requirements.lock" in (ROOT / "Makefile").read_text()
