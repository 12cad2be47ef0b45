"""The server's own settings: from PTYCTL_* variables first, then from the TOML file that PTYCTL_CONFIG names."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

import platformdirs
from pydantic import AfterValidator, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.session.spec import Limits

_DEFAULT_LIMITS = Limits()
_log = logging.getLogger(__name__)


class Settings(BaseSettings):
    """`state_dir` keeps the transcripts; `devices_file` is the inventory; `platforms_dir` has the user's own families. Sizes
    are bytes. A daemon without sessions and connections ends after `daemon_idle_s`; 0 is never. A console whose line is lost is
    connected anew for `reconnect_for_s` at most; 0 is not at all. `gc_max_age_days` and `gc_max_bytes` are what a `gc` leaves;
    0 is no limit."""

    model_config = SettingsConfigDict(env_prefix="PTYCTL_", extra="ignore", frozen=True)

    state_dir: Path = Field(default_factory=lambda: Path(platformdirs.user_state_dir("ptyctl")))
    devices_file: Annotated[Path, AfterValidator(Path.expanduser)] = Field(
        default_factory=lambda: Path(platformdirs.user_config_dir("ptyctl")) / "devices.toml"
    )
    platforms_dir: Annotated[Path, AfterValidator(Path.expanduser)] | None = None
    max_sessions: int = Field(400, ge=1)
    window_bytes: int = Field(_DEFAULT_LIMITS.window_bytes, ge=4096)
    quota_bytes: int = Field(_DEFAULT_LIMITS.quota_bytes, ge=0)
    daemon_idle_s: float = Field(3600, ge=0)
    reconnect_for_s: float = Field(3600, ge=0)
    gc_max_age_days: float = Field(30, ge=0)
    gc_max_bytes: int = Field(10 << 30, ge=0)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file, sources = _file(), (init_settings, env_settings)
        return (*sources, TomlConfigSettingsSource(settings_cls, file)) if file is not None else sources

    @property
    def limits(self) -> Limits:
        return Limits(self.window_bytes, self.quota_bytes)

    def sessions_dir(self) -> Path:
        """The folder of all transcripts, made where it is missing.

        Raises:
            PtyctlError: POLICY_DENIED when others can read it, with the command that mends it; IO_ERROR.
        """
        for folder in (self.state_dir, self.state_dir / "sessions"):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                status = folder.stat()
            except OSError as error:
                raise PtyctlError(ErrorCode.IO_ERROR, f"cannot keep transcripts in {folder}: {error.strerror}") from None
            if status.st_uid != os.geteuid():
                raise PtyctlError(
                    ErrorCode.POLICY_DENIED, f"{folder} belongs to another user; set PTYCTL_STATE_DIR to your own"
                )
            if status.st_mode & 0o077:
                raise PtyctlError(
                    ErrorCode.POLICY_DENIED,
                    f"{folder} can be read by others, and transcripts hold what devices print; run: chmod 700 {folder}",
                    {"path": str(folder)},
                )
        return folder


def load_settings() -> Settings:
    """Raises PtyctlError INVALID_ARGUMENT, naming the setting that is wrong."""
    file = _file()
    if file is not None and not file.exists():  # as an empty one: it may be written later
        _log.warning("PTYCTL_CONFIG names %s, which is not there: the defaults stand", file)
    elif file is not None and not file.is_file():
        raise invalid(f"PTYCTL_CONFIG names {file}, which is no file; name one that is, or unset PTYCTL_CONFIG")
    try:
        return Settings()
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors(include_input=False))
        raise invalid(f"the settings (PTYCTL_* variables, PTYCTL_CONFIG) are wrong: {faults}") from None
    except (OSError, ValueError) as error:
        raise invalid(f"the file that PTYCTL_CONFIG names cannot be read: {error}; mend it, or unset PTYCTL_CONFIG") from None


def _file() -> Path | None:
    named = os.environ.get("PTYCTL_CONFIG")
    return Path(named).expanduser() if named else None
