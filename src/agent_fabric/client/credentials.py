"""Who we are to a server: a token or a key, and where it comes from by default."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from agent_fabric.client.logins import Login, Logins, read_own
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.models.addresses import is_local_url

_TABLES: Final = Path("/proc/net")
_LISTENS: Final = "0A"
_LOOPBACK: Final = "7F"
"""How an IPv4 address of this machine ends there, also as a part of an IPv6 address."""
_LOOPBACK_6: Final = f"{1 << 24:032X}"


def users_listening_at(port: int, tables: Path = _TABLES) -> frozenset[int]:
    """Return the numbers of the users whose programs a connection to this machine's own port may reach."""
    users: set[int] = set()
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for row in (tables / name).read_text().splitlines()[1:]:
                words = row.split()
                address, _, at = words[1].partition(":")
                own = not address.strip("0") or address.endswith(_LOOPBACK) or address == _LOOPBACK_6
                if words[3] == _LISTENS and own and int(at, 16) == port:
                    users.add(int(words[7]))
    return frozenset(users)


TOKEN_FILE = "token"  # noqa: S105 - the name of a file
FOLDER = ".fabric"
MAX_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Credential:
    """What is shown to a server, and whence we have it."""

    header: str
    value: str = field(repr=False)
    origin: str
    """For people: where to change it."""
    is_login: bool = False
    """Whether `fabric login` gets a new one."""


def server_address(url: str) -> str:
    """Return a server's address as requests begin with it.

    Raises:
        ConfigError: it is none.
    """
    text = url.strip()
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"{text!r} is no address of a server", hint="For example: http://127.0.0.1:8787")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            "The address of a server must not hold a password",
            hint="Put what you log in with into FABRIC_TOKEN or FABRIC_API_KEY.",
        )
    if parts.query or parts.fragment:
        raise ConfigError(f"{text!r} is no address of a server: it has a query", hint="End it behind the path.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def proxy_for(address: str, environment: Mapping[str, str]) -> str | None:
    """Return the proxy that leads to a server, as `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY` have it; None: go directly.

    Not left to the HTTP library: it would also take passwords for the host from the user's `.netrc`, and send them.
    """
    parts = urlsplit(address)
    proxies = {
        name.lower().removesuffix("_proxy"): value
        for name, value in environment.items()
        if value and name.lower().endswith("_proxy")
    }
    if is_local_url(address) or _goes_directly(parts.hostname or "", proxies.get("no", "")):
        return None
    return proxies.get(parts.scheme) or None


def _goes_directly(host: str, listed: str) -> bool:
    names = [name.strip().lower().lstrip("*.") for name in listed.split(",") if name.strip()]
    return listed.strip() == "*" or any(host == name or host.endswith(f".{name}") for name in names if name)


def credential_for(
    address: str,
    *,
    token: str | None = None,
    key: str | None = None,
    environment: Mapping[str, str] = os.environ,
    start: Path | None = None,
    listening: Callable[[int], frozenset[int]] = users_listening_at,
) -> Credential | None:
    """Return what to show to a server: what was given, what the environment holds, a login, or our own token.

    A login is shown to no server but the one that gave it. Our own token opens everything here, so it is shown neither
    to another machine nor, where the kernel tells whose a port is (`listening`), to a program of another user, root
    excepted. It is looked for from `start` upwards, by default from the current folder.

    Raises:
        ConfigError: it cannot be sent as it is.
    """
    if token:
        return _bearer(token, "the token that was given")
    if key:
        return _api_key(key, "the key that was given")
    if value := environment.get("FABRIC_TOKEN"):
        return _bearer(value, "FABRIC_TOKEN")
    if value := environment.get("FABRIC_API_KEY"):
        return _api_key(value, "FABRIC_API_KEY")
    login = Logins(environment).find(address)
    if login is not None and not login.has_ended(time.time()):
        return login_credential(login)
    own = _own_token(start) if is_local_url(address) and not listening(_port(address)) - {0, os.geteuid()} else None
    if own is not None or login is None:
        return own
    return login_credential(login)  # to be told by its server that it has ended, and not that nothing was shown


def _port(address: str) -> int:
    parts = urlsplit(address)
    return parts.port or (443 if parts.scheme == "https" else 80)


def login_credential(login: Login) -> Credential:
    """Return what a login shows to its server."""
    return replace(_bearer(login.token, f"the login as {login.user}"), is_login=True)


def _bearer(value: str, origin: str) -> Credential:
    return Credential("Authorization", f"Bearer {_one_line(value, origin)}", origin)


def _api_key(value: str, origin: str) -> Credential:
    return Credential("X-API-Key", _one_line(value, origin), origin)


def _one_line(value: str, origin: str) -> str:
    text = value.strip()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError(f"What to log in with, from {origin}, is not one word", hint="Copy it again, without blanks.")
    return text


def _own_token(start: Path | None) -> Credential | None:
    """Return the token of the server of the nearest fabric folder, if it has one that we may read."""
    try:
        here = Path.cwd() if start is None else start
        root = next((each / FOLDER for each in (here, *here.parents) if (each / FOLDER).is_dir()), None)
        if root is None:
            return None
        token = read_own(root / TOKEN_FILE, most_bytes=MAX_BYTES).decode("ascii")
        return _bearer(token, str(root / TOKEN_FILE))
    except (OSError, UnicodeDecodeError, ConfigError):
        return None
