"""Settings: defaults, then ``tocsin.toml``, then ``TOCSIN_*`` in the environment, then flags.

Every setting is a field of :class:`Settings`. An unknown key in the file is an error. Unknown
``TOCSIN_*`` variables are ignored, because the hook reads variables with the same prefix.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tocsin_server.core.errors import SettingError

PREFIX = "TOCSIN_"
DEFAULT_FILE = "tocsin.toml"
MIB = 1 << 20


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """``$XDG_DATA_HOME/tocsin``, by default ``~/.local/share/tocsin``."""
    base = environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "tocsin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Configuration of the server. Units are part of the field names."""

    host: str = "127.0.0.1"
    """Address to listen on. On any other address than loopback, the server starts only once tokens were
    created."""
    port: int = 8321
    """Port to listen on; 0 picks a free one."""
    data_dir: Path = Path(".")
    """Directory of the database, the printed tokens and the session key."""
    database_url: str = ""
    """``sqlite:///FILE`` or ``postgresql://USER:PASSWORD@HOST/NAME``; empty is SQLite in ``data_dir``."""
    public_url: str = ""
    """URL at which browsers and training processes reach the server behind a proxy. It may have a path."""
    root_path: str = ""
    """Path under which a proxy serves tocsin, such as ``/tocsin``; empty is the path of ``public_url``."""
    allow_admin_link: bool = False
    """Accept the printed login link from other machines, and start beyond loopback without created tokens."""
    session_days: int = 30
    """Days that a browser stays logged in."""
    hsts_days: int = 365
    """Days for which browsers that used HTTPS use only HTTPS for this host name; 0 switches it off."""
    login_attempts: int = 20
    """Wrong tokens that an address may try per minute. A correct token always works."""
    limit_frame_bytes: int = 4 * MIB
    """Largest message of a training process."""
    limit_series: int = 512
    """Names of series in a run; further names are left out."""
    limit_name_bytes: int = 256
    """Longest name of a project, run or series."""
    limit_records_per_s: int = 20_000
    """Records per second of one writer. Above it they are delayed, never dropped."""
    limit_event_bytes: int = 64 << 10
    """Largest event."""
    limit_events_per_s: int = 100
    """Events that one writer may create per second, by its own clock; a hundred seconds' worth may come at
    once."""
    limit_config_bytes: int = MIB
    """Largest config of a run."""
    limit_body_bytes: int = MIB
    """Largest body of an API request; 64 KiB before login."""
    limit_head_bytes: int = 128 << 10
    """Largest request line and headers of a request."""
    limit_connections: int = 4096
    """Simultaneous connections; fewer if the process may not open that many files."""
    limit_connections_address: int = 1024
    """Simultaneous connections from one address (IPv6: one /64 network) of another machine."""
    commit_ms: int = 100
    """How long accepted records wait for others before they are committed together."""
    pack_after_s: float = 600.0
    """Records that are too few for a chunk of 4096 are compressed after this time, or soon after their run
    ended."""
    backlog_bytes: int = 32 * MIB
    """Memory for data that is accepted but not stored; above it the server stops reading from training
    processes."""
    flush_ms: int = 200
    """How often training processes send; less often if there are many (``messages_per_s``)."""
    flush_ms_watched: int = 50
    """How often the training processes of a run send while a browser shows it."""
    messages_per_s: int = 400
    """Messages of all training processes per second, above which they are asked to send less often."""
    flush_ms_max: int = 5000
    """The same under back-pressure, at most."""
    handshake_timeout_s: float = 10.0
    """Seconds within which a training process must send its handshake on a new WebSocket."""
    head_timeout_s: float = 10.0
    """Seconds from the connection, or the first byte of a further request, to the end of the request's
    headers."""
    body_timeout_s: float = 30.0
    """Seconds from the end of the headers to the end of the request's body."""
    receive_bytes: int = 64 * MIB
    """Received data that is not processed yet; above it, messages of more than 64 KiB are received one at a
    time."""
    rule_state_records: int = 512
    """Rule states are saved after this many records of a run."""
    rule_state_s: float = 30.0
    """Rule states are saved at least this often."""
    rule_state_pause_s: float = 1.0
    """Rule states are saved at most this often."""
    rule_processes: int = -1
    """Number of processes that evaluate the rules; 0: the server itself evaluates them; -1: once they take a
    quarter of a core, the server starts one process per core beyond the first, at most 2."""
    tick_ms: int = 100
    """How often browsers receive the new records of a run, at most; every 2000 ms while the server is
    behind."""
    fleet_tick_ms: int = 500
    """How often browsers receive the changed rows of the list of runs."""
    heartbeat_s: float = 5.0
    """How often browsers receive a heartbeat."""
    subscriber_bytes: int = 2 * MIB
    """Data that may wait for one slow browser; above it the page queries again instead."""
    live_kept_bytes: int = MIB
    """Newest records of a run that are kept in memory for live pages."""
    fleet_runs: int = 2000
    """Runs on the live fleet page; above it the oldest ended ones are left out."""
    notify_private_addresses: bool = False
    """Let channels use hosts inside the server's own network, including the server itself."""
    notify_timeout_s: float = 30.0
    """How long one attempt to deliver a notification may take."""
    notify_poll_s: float = 1.0
    """How often the server looks for notifications that are due."""
    ping_url: str = ""
    """URL that is called every ``ping_s`` while all is well, and with ``/fail`` appended while it is not."""
    ping_s: float = 60.0
    """How often ``ping_url`` is called."""
    restart_grace_s: float = 600.0
    """How long the alerts of a failed run wait for another attempt of it; 0 closes them with the run."""
    shutdown_s: float = 10.0
    """How long a stopping server waits for connections, then for the last commit."""
    retention_days: float = 0.0
    """Runs that ended this many days ago are deleted; 0 keeps them indefinitely."""
    retention_projects: tuple[tuple[str, float], ...] = ()
    """Days for single projects: a table in the file, ``name=days,name=days`` in the environment."""
    retention_check_s: float = 3600.0
    """How often the server looks for runs to delete."""

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name))
        for name in ("public_url", "root_path"):
            object.__setattr__(self, name, getattr(self, name).rstrip("/"))
        of_url = urlsplit(self.public_url).path
        if self.public_url and self.root_path and self.root_path != of_url:
            expected = f"{of_url or 'nothing'}, as in public_url ({self.public_url})"
            raise SettingError("root_path", expected, self.root_path)
        if not self.root_path:
            object.__setattr__(self, "root_path", of_url)

    @property
    def url(self) -> str:
        """URL of the database."""
        return self.database_url or f"sqlite:///{self.data_dir / 'tocsin.db'}"

    def retention_of(self, project: str) -> float:
        """Return the days that runs of ``project`` are kept after their end; 0 means indefinitely."""
        return dict(self.retention_projects).get(project, self.retention_days)

    @property
    def public_origin(self) -> str:
        """``public_url`` without its path."""
        return self.public_url.removesuffix(self.root_path)

    @property
    def websocket_bytes(self) -> int:
        """Maximum WebSocket frame that is read; frames above ``limit_frame_bytes`` still get an error."""
        return 4 * self.limit_frame_bytes

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


_POSITIVE = (
    "limit_",
    "login_",
    "session_",
    "commit_",
    "pack_",
    "backlog_",
    "flush_",
    "handshake_",
    "head_",
    "body_",
    "receive_",
    "rule_state_",
    "tick_",
    "heartbeat_",
    "subscriber_",
    "live_",
    "fleet_",
    "notify_timeout_",
    "notify_poll_",
    "ping_s",
    "retention_check_",
)


def _check(name: str, value: Any) -> None:
    if name == "port" and not 0 <= value <= 65535:
        raise SettingError(name, "a port from 0 to 65535", value)
    if name == "public_url" and value:
        _check_public_url(value)
    if name == "root_path" and value:
        _check_root_path(name, value.rstrip("/"))
    if name.startswith(_POSITIVE) and value <= 0:
        raise SettingError(name, "more than 0", value)
    if name == "rule_processes" and not -1 <= value <= 64:
        raise SettingError(name, "-1, or a number from 0 to 64", value)
    days = [of for _, of in value] if name == "retention_projects" else [value]
    if name.startswith(("retention_", "restart_", "hsts_")) and not all(0 <= of < math.inf for of in days):
        raise SettingError(name, "0 or more", value)


_PATH_PART = re.compile(r"(?!\.\.?$)[\w.~-]+", re.ASCII)
_OWN_PATHS = frozenset(
    {
        "ack", "alerts", "api", "assets", "browser", "channels", "compare", "components", "data",
        "deliveries", "incidents", "lib", "login", "logout", "metrics", "pages", "panels", "routes",
        "rules", "runs", "settings", "silences", "styles", "types",
    }
)  # fmt: skip
"""First path segments that this server uses itself.

With a root path that starts with one of them, the server could not determine whether a proxy has already
stripped the root path.
"""


def _check_public_url(value: str) -> None:
    expected = "an address such as https://tocsin.lab or https://lab/tocsin"
    try:
        parts = urlsplit(value)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise SettingError("public_url", expected, value) from None
    if not fits or parts.username is not None or "?" in value or "#" in value:
        raise SettingError("public_url", expected, value)
    _check_root_path("public_url", parts.path.rstrip("/"))


def _check_root_path(name: str, path: str) -> None:
    first, *parts = path.split("/")
    if first or not all(_PATH_PART.fullmatch(part) for part in parts):
        raise SettingError(name, "a path of letters, digits and . _ ~ -, such as /tocsin", path)
    if parts and parts[0] in _OWN_PATHS:
        raise SettingError(name, "a path that tocsin does not use itself", path)


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Return the effective settings.

    Args:
        flags: Command-line values; None means not passed.
        config: The TOML file, which must then exist; by default ``TOCSIN_CONFIG`` or ``tocsin.toml``.
        environ: Environment variables; by default those of the process.

    Raises:
        SettingError: The file has an unknown key, or a value is invalid.
    """
    environ = os.environ if environ is None else environ
    found: dict[str, Any] = {"data_dir": default_data_dir(environ)}
    found |= _from_file(config or _config_in(environ), required=config is not None)
    found |= _from_environment(environ)
    found |= {name: value for name, value in (flags or {}).items() if value is not None}
    return replace(Settings(), **found)


def _config_in(environ: Mapping[str, str]) -> Path:
    return Path(environ.get(PREFIX + "CONFIG") or DEFAULT_FILE)


def _from_file(path: Path, *, required: bool) -> dict[str, Any]:
    if not path.is_file():
        if required:
            raise SettingError("config", "a readable TOML file", str(path))
        return {}
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingError("config", "a readable TOML file", f"{path}: {error}") from error
    return {name: _fitting(name, value, str(path)) for name, value in table.items()}


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for field in fields(Settings):
        key = PREFIX + field.name.upper()
        if environ.get(key):
            found[field.name] = _fitting(field.name, environ[key], key)
    return found


def _fitting(name: str, value: Any, origin: str) -> Any:
    """Convert ``value`` to the type of the field; text from the environment is parsed."""
    default = {field.name: field.default for field in fields(Settings)}.get(name)
    if default is None:
        names = ", ".join(field.name for field in fields(Settings))
        raise SettingError(name, f"one of {names}", value, origin)
    try:
        return _as(type(default), value)
    except (TypeError, ValueError) as error:
        raise SettingError(name, str(error), value, origin) from error


def _as(kind: type, value: Any) -> Any:
    if kind is bool:
        return _truth(value)
    if kind is int and (isinstance(value, (bool, float)) or not str(value).lstrip("-").isdigit()):
        raise ValueError("a whole number")
    if kind is float:
        return _number(value)
    if kind is tuple:
        return _by_name(value)
    if kind is str and not isinstance(value, str):
        raise ValueError("text")
    if issubclass(kind, Path):
        return Path(value).expanduser()
    return kind(value)  # type: ignore[call-arg]


def _number(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError("a number") from None


def _by_name(value: Any) -> tuple[tuple[str, float], ...]:
    """Return numbers by name, from a TOML table or from ``name=number,name=number``."""
    if isinstance(value, str):
        value = dict(pair.strip().rpartition("=")[::2] for pair in value.split(",") if pair.strip())
    if not isinstance(value, Mapping) or "" in value:
        raise ValueError("a table of numbers by name")
    return tuple((name, _number(number)) for name, number in value.items())


def _truth(value: Any) -> bool:
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if str(value).lower() not in words:
        raise ValueError("true or false")
    return words[str(value).lower()]
