"""The user's own key for the audit chain, outside every fabric folder."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agent_fabric.config.folders import base_folder
from agent_fabric.domain.audit.key import UNKEYED, AuditKey
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.private_files import write_private

VARIABLE = "AUDIT_KEY"
"""Holds the key in hexadecimal digits, where several machines share it."""
_BYTES = 32


def audit_key(environ: Mapping[str, str]) -> AuditKey:
    """Return the key in `AUDIT_KEY`, else the user's, made when it is first needed.

    A user without a home, or a full disk, has none.

    Raises:
        ConfigError: there is a key that cannot be used; to go on without it would mean to trust everything.
    """
    given = environ.get(VARIABLE, "").strip()
    if given:
        return _given_key(given)
    folder = base_folder(environ, "XDG_DATA_HOME", ".local", "share")
    if folder is None:
        return UNKEYED
    path = folder / "audit.key"
    with suppress(OSError):
        return _read(path) or _make(path)
    return UNKEYED


def _given_key(text: str) -> AuditKey:
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != _BYTES:
        raise ConfigError(
            f"{VARIABLE} must be {2 * _BYTES} hexadecimal digits",
            hint="Use a random value, such as that of: openssl rand -hex 32. An existing key: xxd -p -c 32 audit.key",
        )
    return AuditKey.of(value)


def _read(path: Path) -> AuditKey | None:
    try:
        value = path.read_bytes()
    except FileNotFoundError:
        return None
    except PermissionError:
        if not path.exists():
            raise  # the home is someone else's, so there is no key of ours in it
        raise ConfigError(
            f"{path} cannot be read", hint="Change its owner to you: it may have been made with sudo."
        ) from None
    if len(value) != _BYTES:
        raise ConfigError(
            f"{path} is damaged: it has {len(value)} bytes instead of {_BYTES}",
            hint="Restore it from a backup. Without one, remove it: a new one is made, and what was recorded "
            "before can no longer be checked.",
        )
    return AuditKey.of(value)


def _make(path: Path) -> AuditKey:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(ConfigError):  # a full disk, say
        write_private(path, secrets.token_bytes(_BYTES), replace=False)
    return _read(path) or UNKEYED
