"""The policy store: loads the policy when the server starts, on request, and when one of its files changes."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.platforms import Platform, Platforms
from ptyctl.policy.policy_file import (
    DEFAULT_PRESET,
    PRESETS,
    Policy,
    load_policy,
    policy_path,
    preset_text,
    read_policy_file,
    run_examples,
)
from ptyctl.policy.rules import SHELL_PLATFORM, DecisionRequest, Verdict
from ptyctl.policy.shell_command import canonical_shell
from ptyctl.version import __version__

from .settings import Settings

_LOG = logging.getLogger(__name__)

#: Name of the policy file next to the configuration.
POLICY_FILE = "policy.toml"
#: Interval at which the files are checked for changes (seconds).
POLL_S = 1.0

#: Fields of stat(2) that change with a file and with the access to it; the number of the error if there are none.
_Version = tuple[int, ...] | int
#: Number of the last requests that a new policy judges before it is in force.
_LAST_REQUESTS = 32
#: Judged by a new policy too: they load the platforms and the parser of a session without a platform.
_FIRST_REQUESTS = (DecisionRequest("true"), DecisionRequest("true", SHELL_PLATFORM))
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
#: Receives the name of an event and its fields.
Record = Callable[..., None]


class PolicyStore:
    """Loads the policy and judges requests by it.

    A load that fails leaves the policy that was in force. Without one, nothing may be typed.
    """

    def __init__(self, settings: Settings, platforms: Platforms, record: Record | None = None) -> None:
        """Load the policy of the settings. If that fails, `problem` has the reason.

        Args:
            record: adds a row to the audit log. Without it, loads are not written to the log either.
        """
        self._setting = settings.policy
        #: The text of the setting's file, which is not read then.
        self._text: str | None = None
        self._folder = settings.config_dir()
        self._platforms = _PlatformsByName(platforms)
        self._record = record
        self._loading = threading.Lock()
        self._policy: Policy | None = None
        self._last_requests: deque[DecisionRequest] = deque(maxlen=_LAST_REQUESTS)
        self._versions: Mapping[Path, _Version] = {}
        #: Name and SHA-256 of the policy in force: of its file and the files that it extends (without presets), or of a preset.
        self.name, self.sha256 = self._find(), ""
        self._fault: PtyctlError | None = None
        with suppress(PtyctlError):
            self._load(self.name)

    @property
    def problem(self) -> str | None:
        """The reason why the last load failed, or None."""
        return None if self._fault is None else self._fault.message

    @property
    def policy(self) -> Policy:
        """The policy that is in force.

        Raises:
            PtyctlError: POLICY_DENIED if none could be loaded yet.
        """
        if self._policy is None:
            raise PtyctlError(
                ErrorCode.POLICY_DENIED,
                f"nothing may be typed, because the policy is faulty: {self.problem}",
                {"policy": self.name},
                hint=self._fault.hint if self._fault is not None else None,
            )
        return self._policy

    @property
    def identity(self) -> object:
        """An object that is replaced when the policy is loaded again."""
        return self._policy

    def verdict(self, request: DecisionRequest) -> Verdict:
        """Return the verdict of the policy that is in force.

        Raises:
            PtyctlError: as `policy`.
        """
        self._last_requests.append(request)
        return self.policy.evaluator.verdict(request)

    def verdict_by_rules(self, request: DecisionRequest, *, known_only: bool = False) -> Verdict:
        """Return the verdict of the rules that match; see `Evaluator.verdict_by_rules`. Raises as `verdict`."""
        return self.policy.evaluator.verdict_by_rules(request, known_only=known_only)

    def unreadable(self, request: DecisionRequest) -> Verdict:
        """Return the verdict on a line that cannot be read. Raises as `verdict`."""
        return self.policy.evaluator.unreadable(request)

    def reload(self, by: str | None = None) -> None:
        """Find and load the policy again, on behalf of a principal.

        Raises:
            PtyctlError: INVALID_ARGUMENT, naming file, line and rule; the policy that was in force remains in force.
        """
        with self._loading:
            try:
                self._load(self._find(), by)
            except PtyctlError as error:
                message = f"{error.message} ({self._in_force()})"
                raise PtyctlError(error.code, message, error.details, hint=error.hint) from None

    def use(self, file: Path, text: str) -> None:
        """Use a verified policy text instead of the file of the settings.

        Args:
            file: where the text is kept. It is not read: an edit of it has no effect.

        Raises:
            PtyctlError: INVALID_ARGUMENT, naming file, line and rule; the policy that was in force remains in force.
        """
        with self._loading:
            before, self._setting, self._text = (self._setting, self._text), str(file), text
            try:
                self._load(str(file))
            except PtyctlError:
                self._setting, self._text = before
                raise

    def refresh(self) -> None:
        """Load the policy again if one of its files has changed. If a file is missing, keep the policy and report a problem."""
        with self._loading:
            if self._has_changed():
                with suppress(PtyctlError):
                    self._load(self._find() if self.name in PRESETS else self.name)

    async def watch(self) -> None:
        """Load the policy again whenever one of its files changes, until cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            if self._has_changed():
                try:
                    await asyncio.to_thread(self.refresh)
                except Exception:  # noqa: BLE001 - a bug: the old policy stays, and later edits must be noticed
                    _LOG.exception("the policy could not be loaded")

    def run_examples(self, name: str | None = None) -> tuple[str, int, list[PtyctlError]]:
        """Check the examples of a preset or file; by default those of the policy that the settings name.

        Returns:
            Its name, the number of examples, and the errors of those that fail.

        Raises:
            PtyctlError: INVALID_ARGUMENT for a file that is faulty otherwise.
        """
        name = self._find() if name is None else name
        read = read_policy_file(self._folder_of(name))
        return name, *run_examples(name, read=read, platforms=self._platforms, read_shell=canonical_shell)

    def _find(self) -> str:
        """Return a preset, or the path of a file."""
        if self._setting is None:
            file = self._folder / POLICY_FILE
            return DEFAULT_PRESET if _version(file) in _ABSENT else str(file)
        return self._setting if self._setting in PRESETS else str(policy_path(self._folder, self._setting))

    def _folder_of(self, name: str) -> Path:
        return self._folder if name in PRESETS else Path(name).parent

    def _has_changed(self) -> bool:
        return any(_version(path) != version for path, version in self._versions.items())

    def _load(self, name: str, by: str | None = None) -> None:
        """Load a policy and put it in force; report the result in the log and the audit log."""
        folder = self._folder_of(name)
        read_file = read_policy_file(folder)
        default = self._folder / POLICY_FILE
        versions: dict[Path, _Version] = {default: _version(default)} if self._setting is None else {}
        texts: dict[str, bytes] = {}

        def read(file: str) -> str:
            path = policy_path(folder, file)
            if self._text is None:
                versions[path] = _version(path)  # before the text: a file that changes in between is loaded once more
                text = read_file(file)
            elif file == name:
                text = self._text
            else:
                raise invalid(f"{self._setting} extends the file {file}, which was not verified", hint="extend a preset only")
            texts[str(path)] = text.encode()
            return text

        try:
            policy = load_policy(name, read=read, platforms=self._platforms, read_shell=canonical_shell)
        except PtyctlError as error:
            self._versions, self._fault = versions, error
            self._report(name, texts, by)
            raise
        for request in (*_FIRST_REQUESTS, *self._last_requests):  # finds their rules here, and not in the event loop
            with suppress(PtyctlError):  # of a platform whose file is faulty
                policy.evaluator.verdict(request)
        if name in PRESETS:
            texts[name] = preset_text(name).encode()
        self._policy, self._versions, self._fault = policy, versions, None
        self.name, self.sha256 = name, _digest(b"".join(texts.values()))
        self._report(name, texts, by)

    def _report(self, name: str, texts: Mapping[str, bytes], by: str | None) -> None:
        """Report the result of a load in the log and the audit log."""
        if self._record is None:
            return
        if self.problem is not None:
            _LOG.error("the policy could not be loaded", extra={"why": self.problem, "result": self._in_force()})
        files = {file: _digest(text) for file, text in texts.items()}
        result = "loaded" if self.problem is None else "failed"
        self._record("policy", policy=name, result=result, why=self.problem, files=files, version=__version__, principal=by)

    def _in_force(self) -> str:
        return "nothing may be typed" if self._policy is None else f"{self.name} stays in force"


def check_policy_file(path: Path) -> str:
    """Return the text of a valid policy file, which is to be used elsewhere.

    Raises:
        PtyctlError: INVALID_ARGUMENT, naming file, line and rule, or for a file that extends another one.
    """
    path = path.absolute()
    read_file = read_policy_file(path.parent)
    texts: dict[str, str] = {}

    def read(file: str) -> str:
        texts[file] = read_file(file)
        return texts[file]

    platforms = _PlatformsByName(Platforms(Settings().platforms_dir))
    load_policy(str(path), read=read, platforms=platforms, read_shell=canonical_shell)
    if len(texts) != 1:
        raise invalid(f"{path} extends other files, which are not on the other nodes", hint="extend a preset only")
    (text,) = texts.values()
    return text


class _PlatformsByName(Mapping[str, Platform]):
    """The platforms by name. Each is loaded when it is first used, so that a policy does not need them all."""

    def __init__(self, platforms: Platforms) -> None:
        self._platforms = platforms
        self._names = platforms.names()

    def __getitem__(self, name: str) -> Platform:
        if name not in self._names:
            raise KeyError(name)
        return self._platforms.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _version(path: Path) -> _Version:
    try:
        status = path.stat()
    except OSError as error:
        return error.errno or 0
    except ValueError:  # a NUL in the name
        return errno.EINVAL
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
