"""What the server signs tokens and recognises keys with: given in the environment, or made once and kept.

The files lie in the user's data folder, away from every database: who copies a database cannot make tokens for it, nor
try out keys against it. A user without a home has them in the fabric folder.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from pathlib import Path

from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.folders import base_folder
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.secrets.strength import weakness
from agent_fabric.infrastructure.private_files import NotPrivate, read_private, write_private
from agent_fabric.infrastructure.threads import wait_for

SHORTEST = 32
"""Bytes of a secret: as many as what HS256 makes of it (RFC 7518, 3.2)."""
JWT_SECRET = "JWT_SECRET"  # noqa: S105 - a variable's name
API_KEY_PEPPER = "API_KEY_PEPPER"
_JWT_FILE = "jwt.key"
_KEYS_FILE = "identity.key"


def jwt_secret(root: Path, environ: Mapping[str, str], *, shared: bool = False) -> bytes:
    """Return what tokens are signed with: the value of `JWT_SECRET`, else one of this fabric folder's own.

    `shared`: the users are in a database, and the same in every folder.

    Raises:
        ConfigError: it is too short, or cannot be kept.
    """
    given = _secret_in(environ, JWT_SECRET)
    if given is not None:
        return given
    # Users of one folder are not those of another, although one file serves both.
    of = "a database" if shared else str(root.resolve())
    return hmac.digest(_stored_secret(root, environ, _JWT_FILE), f"jwt\0{of}".encode(), "sha256")


def token_secret(root: Path, named: str | None, environ: Mapping[str, str], resolve: Resolve, *, shared: bool) -> bytes:
    """Return what signs tokens: the value of the reference `identity.jwt_secret`, or that of `jwt_secret`.

    Raises:
        ConfigError: it is missing, too short, or cannot be kept.
    """
    return jwt_secret(root, environ, shared=shared) if named is None else long_enough(wait_for(resolve(named)), named)


def key_pepper(root: Path, environ: Mapping[str, str]) -> bytes:
    """Return what API keys are recognised with: of `API_KEY_PEPPER`, else of the user's file.

    Raises:
        ConfigError: it is too short, or cannot be kept.
    """
    given = _secret_in(environ, API_KEY_PEPPER)
    return _stored_secret(root, environ, _KEYS_FILE) if given is None else given


class PepperedHash:
    """KeyHasher: HMAC-SHA256. Before it stands which pepper it was made with, so that a wrong one is noticed."""

    def __init__(self, pepper: bytes) -> None:
        self._pepper = pepper
        self._mark = hashlib.sha256(b"agent-fabric pepper\0" + pepper).digest()[:4]

    def hash(self, key: str) -> bytes:
        return self._mark + hmac.digest(self._pepper, key.encode(errors="replace"), "sha256")

    def made(self, hashed: bytes) -> bool:
        return hashed.startswith(self._mark)


def long_enough(value: str, name: str) -> bytes:
    """Return a secret, checked.

    Raises:
        ConfigError: it is too short, or easily guessed.
    """
    content = value.encode(errors="surrogateescape")
    if weak := weakness(content, shortest=SHORTEST):
        raise ConfigError(f"{name} {weak}", hint="Use a random value, such as that of: openssl rand -base64 48")
    return content


def _secret_in(environ: Mapping[str, str], variable: str) -> bytes | None:
    value = environ.get(variable, "")
    return long_enough(value, variable) if value else None


def _stored_secret(root: Path, environ: Mapping[str, str], name: str) -> bytes:
    path = (base_folder(environ, "XDG_DATA_HOME", ".local", "share") or root) / name
    try:
        value = read_private(path)
        if value is None:
            _make(path)
            value = read_private(path)
    except NotPrivate as problem:
        raise ConfigError(
            str(problem),
            hint=f"A reader of it can make tokens or keys. If no one has read it: chmod 600 {path}. "
            "Else remove it: a new one is made, and people and programs need new tokens and keys.",
        ) from None
    if value is None or len(value) != SHORTEST:
        raise ConfigError(
            f"{path} is damaged",
            hint="Restore it from a backup. Without one, remove it: a new one is made, and people and programs "
            "need new tokens and keys.",
        )
    return value


def _make(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as problem:
        raise ConfigError(
            f"The folder {path.parent} cannot be made: {problem.strerror or problem}",
            hint=f"Set HOME or XDG_DATA_HOME to a folder of yours, or give {JWT_SECRET} and {API_KEY_PEPPER}.",
        ) from None
    write_private(path, secrets.token_bytes(SHORTEST), replace=False)
