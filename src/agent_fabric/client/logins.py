"""Which servers this user has logged in to: one private file in their data folder, a token for each address."""

import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from agent_fabric.config.folders import base_folder
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError

FILE: Final = "logins.json"
MAX_BYTES: Final = 1024 * 1024
MAX_LOGIN_S: Final = 10 * 366 * 86_400.0
"""No login lasts longer."""
_USUAL_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Login:
    """What a server gave to a user who knew a password."""

    user: str
    token: str = field(repr=False)
    expires_at: float
    """When the token expires, by this machine's clock."""
    scopes: tuple[str, ...] = ()
    """What it allows."""
    refresh_token: str = field(default="", repr=False)
    """Gets another token when this one has expired; empty: the server gave none."""
    renewable_until: float = 0.0

    @property
    def ends_at(self) -> float:
        """When a password is needed again, by this machine's clock."""
        return max(self.expires_at, self.renewable_until)

    def has_ended(self, now: float) -> bool:
        """Return whether its time is over; a server may have ended it before."""
        return now >= self.ends_at


class Logins:
    """The logins of this user. Several processes may read and change them at once."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        folder = base_folder(environment, "XDG_DATA_HOME", ".local", "share")
        self._path = None if folder is None else folder / FILE

    def find(self, address: str) -> Login | None:
        """Return the login for exactly this address, ended or not; never that for another one."""
        return _login(self._all().get(exact(address)))

    def keep(self, address: str, login: Login) -> None:
        """Keep a login, in the place of an older one for the same address.

        Raises:
            ConfigError: there is no folder for it, or it cannot be written.
        """
        with self._held_paths() as path:
            _write(path, {**self._all(), exact(address): asdict(login)})

    def forget(self, address: str) -> bool:
        """Forget the login for an address; return whether there was one.

        Raises:
            ConfigError: the file cannot be written.
        """
        if exact(address) not in self._all():
            return False
        with self._held_paths() as path:
            _write(path, {key: value for key, value in self._all().items() if key != exact(address)})
        return True

    def _all(self) -> Mapping[str, Any]:
        """Return what the file holds; nothing if it cannot be trusted, as if no one had logged in."""
        if self._path is None:
            return {}
        try:
            servers = json.loads(read_own(self._path, most_bytes=MAX_BYTES, private=True))["servers"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return {}
        return servers if isinstance(servers, dict) else {}

    @contextmanager
    def _held_paths(self) -> Iterator[Path]:
        """Keep other writers away, so that two who log in at once do not lose one of the two."""
        if self._path is None:
            raise ConfigError(
                "There is no folder to keep a login in", hint="Set HOME, or use FABRIC_TOKEN or FABRIC_API_KEY instead."
            )
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            lock = os.open(self._path.with_suffix(".lock"), flags, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield self._path
            finally:
                os.close(lock)
        except OSError as problem:
            raise ConfigError(
                f"{self._path} cannot be written: {problem.strerror or problem}",
                hint="Check that there is space, and that the folder is yours.",
            ) from None


def exact(address: str) -> str:
    """Return an address of a server such that the same one is always written in the same way.

    Its path belongs to it: behind one host there can be several servers, with people of their own.
    """
    parts = urlsplit(address)
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    port = "" if parts.port in {None, _USUAL_PORTS.get(parts.scheme)} else f":{parts.port}"
    return f"{parts.scheme}://{shown}{port}{parts.path.rstrip('/')}"


def login_from(answer: Any, user: str, asked_at: float) -> Login:
    """Return what a server answered to a login.

    Raises:
        KeyError, TypeError, ValueError: it is no such answer.
    """
    token, scopes = _one_word(answer["access_token"]), tuple(map(str, answer["scopes"]))
    login = Login(user, token, asked_at + _seconds(answer["expires_in"]), scopes)
    if not answer.get("refresh_token"):  # the server gives none, or is older than 0.6
        return login
    renewable_until = asked_at + _seconds(answer["refresh_expires_in"])
    return replace(login, refresh_token=_one_word(answer["refresh_token"]), renewable_until=renewable_until)


def renewal_from(login: Login, answer: Any, asked_at: float) -> Login:
    """Return a login with the token that a server has answered to its refresh token.

    Raises:
        KeyError, TypeError, ValueError: it is no such answer.
    """
    fresh = login_from({**answer, "refresh_token": ""}, login.user, asked_at)
    return replace(fresh, refresh_token=login.refresh_token, renewable_until=login.renewable_until)


def _seconds(value: Any) -> float:
    lasts_s = float(value)
    if not 0 < lasts_s <= MAX_LOGIN_S:
        raise ValueError(f"a login for {lasts_s} seconds")
    return lasts_s


def _login(kept: Any) -> Login | None:
    try:
        expires_at, scopes = float(kept["expires_at"]), tuple(map(str, kept["scopes"]))
        login = Login(str(kept["user"]), _one_word(kept["token"]), expires_at, scopes)
        if not kept.get("refresh_token"):
            return login
        renewable_until = float(kept["renewable_until"])
        return replace(login, refresh_token=_one_word(kept["refresh_token"]), renewable_until=renewable_until)
    except (KeyError, TypeError, ValueError):
        return None


def _one_word(token: Any) -> str:
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or token.split() != [token]:
        raise ValueError("a token that is not one word")
    return token


def _write(path: Path, servers: Mapping[str, Any]) -> None:
    replace_own(path, json.dumps({"servers": servers}, indent=1).encode())


def read_own(path: Path, *, most_bytes: int, private: bool = False) -> bytes:
    """Return what a file of ours says; nothing if it is a link or another user's, and so may be any secret.

    `private`: nor if others may read or change it.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            return b""
        if private and facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            return b""
        return os.read(file, most_bytes)
    finally:
        os.close(file)


def replace_own(path: Path, content: bytes) -> None:
    """Put a file that only we can read in the place of what is there: whole, or not at all.

    Raises:
        OSError: it cannot be written; what was there still is.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(file)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
