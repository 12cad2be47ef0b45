"""Settings of the environment: which runtime adapter serves a request, and the phase of the legacy actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from .aliases import AliasPhase
from .errors import TerminalError, TerminalErrorCode

RuntimeMode = Literal["local", "bundled", "container_bridge", "local_or_bundled_auto"]
#: Values of `runtime.adapter_override` and of PM_TERM_ADAPTER_MODE.
AdapterName = Literal["auto", "local", "bundled", "container_bridge"]
ADAPTER_NAMES = get_args(AdapterName)


def alias_phase(environment: Mapping[str, str]) -> AliasPhase:
    """Return the phase of the legacy actions. Raises TerminalError INVALID_PAYLOAD for an unknown one."""
    value = environment.get("PM_TERM_ALIAS_PHASE") or AliasPhase.COMPAT
    try:
        return AliasPhase(value)
    except ValueError:
        phases = ", ".join(AliasPhase)
        raise _invalid_setting("PM_TERM_ALIAS_PHASE", f"is not one of {phases}") from None


def resolve_mode(override: str | None, environment: Mapping[str, str]) -> RuntimeMode:
    """Return the mode: of the request, else PM_TERM_ADAPTER_MODE, else by PM_RUNNING_IN_CONTAINER, else local.

    Raises:
        TerminalError: INVALID_PAYLOAD for an unknown adapter.
    """
    for name, value in (
        ("runtime.adapter_override", override),
        ("PM_TERM_ADAPTER_MODE", environment.get("PM_TERM_ADAPTER_MODE")),
    ):
        if not value:
            continue
        if value not in ADAPTER_NAMES:
            raise _invalid_setting(name, f"is not one of {', '.join(ADAPTER_NAMES)}")
        if value != "auto":
            return value  # type: ignore[return-value]  # one of ADAPTER_NAMES
        break  # an explicit auto ignores PM_TERM_ADAPTER_MODE; only container detection follows
    in_container = environment.get("PM_RUNNING_IN_CONTAINER") == "true"
    return "container_bridge" if in_container else "local_or_bundled_auto"


def _invalid_setting(name: str, problem: str) -> TerminalError:
    return TerminalError(TerminalErrorCode.INVALID_PAYLOAD, f"{name} {problem}", {"setting": name})
