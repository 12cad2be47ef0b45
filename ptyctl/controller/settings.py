"""The server's settings: PTYCTL_* environment variables, then the TOML file that PTYCTL_CONFIG names."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

import platformdirs
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.api.field_faults import field_faults
from ptyctl.audit.audit_log import OnFailure
from ptyctl.core.limits import LIMITS
from ptyctl.core.principal import Kind, Role
from ptyctl.session.approvals import TIMEOUT_S
from ptyctl.session.spec import Limits

_DEFAULT_LIMITS = Limits()
_LOG = logging.getLogger(__name__)


def _default_devices_file() -> Path:
    return Path(platformdirs.user_config_dir("ptyctl")) / "devices.toml"


class AuditSettings(BaseModel):
    """The table `audit`.

    Attributes:
        on_failure: whether consoles take input while the audit log cannot be written.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    on_failure: OnFailure = "deny"


class ApprovalsSettings(BaseModel):
    """The table `approvals`.

    Attributes:
        timeout_s: how long a request waits for an answer, and an approval for its use.
        allow_self: whether people may approve what they asked for themselves.
        elicitation: whether the person at an MCP client may answer the client's requests, by MCP elicitation.
        notify_command: a program and its arguments, run for each request, which it gets as JSON on standard input.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    timeout_s: float = Field(TIMEOUT_S, ge=1, le=86_400)
    allow_self: bool = False
    elicitation: bool = False
    notify_command: tuple[str, ...] = ()


class UserRights(BaseModel):
    """The rights of a user or of the members of a group. A string in the configuration is the role.

    Attributes:
        devices: globs; None means all devices.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Role
    kind: Kind = Kind.PERSON
    devices: Annotated[tuple[str, ...] | None, Field(min_length=1)] = None

    @model_validator(mode="before")
    @classmethod
    def _from_role(cls, value: Any) -> Any:
        return {"role": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if self.role is Role.APPROVER and self.kind is Kind.AGENT:
            raise ValueError("an agent cannot have the role approver")
        return self


class AccessSettings(BaseModel):
    """The table `access`.

    Attributes:
        users: by login name or uid.
        groups: by name or gid. A user in several gets the grant of the first one in the table.
        local_sessions: whether clients may use the daemon's own machine as the daemon's user: local shells, and files.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    users: Mapping[str, UserRights] = Field(default_factory=dict)
    groups: Mapping[str, UserRights] = Field(default_factory=dict)
    local_sessions: bool = False


class _EnvironmentSource(EnvSettingsSource):
    """Reads the variables of the environment.

    Analyses a field's type only if its variable is set: to analyse all fields would take most of the time of a load. The fields
    have no aliases, and there are no variables for parts of a field.
    """

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        if f"{self.env_prefix}{field_name}".lower() in self.env_vars:
            return super().get_field_value(field, field_name)
        return None, field_name, True

    def prepare_field_value(self, field_name: str, field: FieldInfo, value: Any, value_is_complex: bool) -> Any:
        return None if value is None else super().prepare_field_value(field_name, field, value, value_is_complex)


class Settings(BaseSettings):
    """The settings, with their defaults.

    Attributes:
        state_dir: folder of the transcripts.
        devices_file: the inventory.
        platforms_dir: folder of the user's own platform files.
        max_sessions: how many sessions may be open at the same time.
        max_client_sessions: how many of them one client may open; None means all.
        max_...: the other limits of `ptyctl.core.limits`.
        window_bytes: how much text of each session is held in memory for reads.
        quota_bytes: how much of each session is kept on disk; 0 means nothing.
        daemon_idle_s: time after which a daemon without sessions and connections stops; 0 means never.
        reconnect_for_s: how long to try to reconnect a lost console; 0 disables reconnection.
        policy: a preset, or a policy file, whose relative path begins in `config_dir`. By default `policy.toml` there, or the
            preset `guarded` if that file does not exist.
        gc_max_age_days, gc_max_bytes: limits for the removal of old transcripts; 0 means no limit.
        access: who may use a system daemon.
        audit, approvals: how the audit log and approval requests behave; as environment variables JSON objects.
    """

    model_config = SettingsConfigDict(env_prefix="PTYCTL_", extra="forbid", frozen=True)

    state_dir: Path = Field(default_factory=lambda: Path(platformdirs.user_state_dir("ptyctl")))
    devices_file: Annotated[Path, AfterValidator(Path.expanduser)] = Field(default_factory=_default_devices_file)
    platforms_dir: Annotated[Path, AfterValidator(Path.expanduser)] | None = None
    max_sessions: int = Field(LIMITS["max_sessions"].maximum, ge=1)
    max_connections: int = Field(LIMITS["max_connections"].maximum, ge=1)
    max_http_connections: int = Field(LIMITS["max_http_connections"].maximum, ge=1)
    max_mcp_sessions: int = Field(LIMITS["max_mcp_sessions"].maximum, ge=1)
    max_web_logins: int = Field(LIMITS["max_web_logins"].maximum, ge=1)
    max_web_tickets: int = Field(LIMITS["max_web_tickets"].maximum, ge=1)
    max_approval_watches: int = Field(LIMITS["max_approval_watches"].maximum, ge=1)
    max_remembered_calls: int = Field(LIMITS["max_remembered_calls"].maximum, ge=1)
    max_forwarded_calls: int = Field(LIMITS["max_forwarded_calls"].maximum, ge=1)
    max_client_connections: int = Field(LIMITS["max_client_connections"].maximum, ge=1)
    max_client_sessions: int | None = Field(None, ge=1)
    max_client_calls: int = Field(LIMITS["max_client_calls"].maximum, ge=1)
    max_client_searches: int = Field(LIMITS["max_client_searches"].maximum, ge=1)
    max_client_sockets: int = Field(LIMITS["max_client_sockets"].maximum, ge=1)
    max_client_downloads: int = Field(LIMITS["max_client_downloads"].maximum, ge=1)
    max_socket_subscriptions: int = Field(LIMITS["max_socket_subscriptions"].maximum, ge=1)
    max_principal_logins: int = Field(LIMITS["max_principal_logins"].maximum, ge=1)
    max_principal_checks: int = Field(LIMITS["max_principal_checks"].maximum, ge=1)
    max_principal_verdicts: int = Field(LIMITS["max_principal_verdicts"].maximum, ge=1)
    max_principal_approvals: int = Field(LIMITS["max_principal_approvals"].maximum, ge=1)
    max_session_approvals: int = Field(LIMITS["max_session_approvals"].maximum, ge=1)
    max_client_watches: int = Field(LIMITS["max_client_watches"].maximum, ge=1)
    max_session_calls: int = Field(LIMITS["max_session_calls"].maximum, ge=1)
    max_session_watches: int = Field(LIMITS["max_session_watches"].maximum, ge=1)
    max_session_searches: int = Field(LIMITS["max_session_searches"].maximum, ge=1)
    max_session_observers: int = Field(LIMITS["max_session_observers"].maximum, ge=1)
    max_session_queue: int = Field(LIMITS["max_session_queue"].maximum, ge=1)
    window_bytes: int = Field(_DEFAULT_LIMITS.window_bytes, ge=4096)
    quota_bytes: int = Field(_DEFAULT_LIMITS.quota_bytes, ge=0)
    daemon_idle_s: float = Field(3600, ge=0)
    reconnect_for_s: float = Field(3600, ge=0)
    gc_max_age_days: float = Field(30, ge=0)
    gc_max_bytes: int = Field(10 << 30, ge=0)
    audit: AuditSettings = AuditSettings()
    access: AccessSettings = AccessSettings()
    policy: str | None = Field(None, min_length=1)
    approvals: ApprovalsSettings = ApprovalsSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file, sources = _config_file(), (init_settings, _EnvironmentSource(settings_cls))
        return (*sources, TomlConfigSettingsSource(settings_cls, file)) if file is not None else sources

    @cached_property
    def limits(self) -> Limits:
        numbers = {name: getattr(self, name) or self.max_sessions for name in LIMITS}
        use = {name: limit._replace(maximum=numbers[name]) for name, limit in LIMITS.items()}
        return Limits(self.window_bytes, self.quota_bytes, use)

    def config_dir(self) -> Path:
        """Return the folder of the file that PTYCTL_CONFIG names; without one, the user's folder for configuration."""
        file = _config_file()
        return file.absolute().parent if file is not None else Path(platformdirs.user_config_dir("ptyctl"))

    def sessions_dir(self) -> Path:
        """Return the folder of all transcripts. Creates it if necessary.

        Raises:
            PtyctlError: POLICY_DENIED if it belongs to another user or others can read it; IO_ERROR.
        """
        for folder in (self.state_dir, self.state_dir / "sessions"):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                status = folder.stat()
            except OSError as error:
                raise PtyctlError(ErrorCode.IO_ERROR, f"transcripts cannot be stored in {folder}: {error.strerror}") from None
            if status.st_uid != os.geteuid():
                raise PtyctlError(
                    ErrorCode.POLICY_DENIED,
                    f"{folder} belongs to another user",
                    hint="set PTYCTL_STATE_DIR to a folder of your own",
                )
            if status.st_mode & 0o077:
                raise PtyctlError(
                    ErrorCode.POLICY_DENIED,
                    f"others can read {folder}, and transcripts hold everything that devices print",
                    {"path": str(folder)},
                    hint=f"run: chmod 700 {folder}",
                )
        return folder


def load_settings() -> Settings:
    """Load the settings.

    Raises:
        PtyctlError: INVALID_ARGUMENT, naming the invalid setting.
    """
    file = _config_file()
    if file is not None and not file.exists():  # counts as empty: the user may create it later
        _LOG.warning("PTYCTL_CONFIG names %s, which does not exist: the defaults apply", file)
    elif file is not None and not file.is_file():
        raise invalid(f"PTYCTL_CONFIG names {file}, which is not a file", hint="name a file, or unset PTYCTL_CONFIG")
    try:
        return Settings()
    except ValidationError as error:
        faults = "; ".join(f"{fault.path}: {fault.problem}" for fault in field_faults(error, Settings))
        raise invalid(f"invalid settings (PTYCTL_* variables, PTYCTL_CONFIG): {faults}") from None
    except (OSError, ValueError) as error:
        raise invalid(
            f"the file that PTYCTL_CONFIG names cannot be read: {error}", hint="correct the file, or unset PTYCTL_CONFIG"
        ) from None


def inventory_file() -> Path:
    """Return the inventory file of the settings, or the user's default one if they are invalid; `load_settings` reports why."""
    try:
        return load_settings().devices_file
    except PtyctlError:
        return _default_devices_file()


def load_access() -> AccessSettings:
    """Load who may use a system daemon.

    Raises:
        PtyctlError: POLICY_DENIED if another user can change the file; as `load_settings`.
    """
    file = _config_file()
    if file is not None and file.exists():
        status = file.stat()
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
            raise PtyctlError(
                ErrorCode.POLICY_DENIED,
                f"{file} belongs to another user, or others can write it",
                {"path": str(file)},
                hint=f"run: chown root {file}; chmod 644 {file}",
            )
    return load_settings().access


def _config_file() -> Path | None:
    name = os.environ.get("PTYCTL_CONFIG")
    return Path(name).expanduser() if name else None
