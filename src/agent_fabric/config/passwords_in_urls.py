"""Passwords and tokens in addresses of services: `postgresql://ada:secret@host/db`, `nats://token@host`."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

HIDDEN: Final = "***"
_USER_INFO: Final = re.compile(
    r"(?<![a-z0-9+.-])(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<user>[^\s/?#,:@]*)(?P<password>:[^\s/?#,]*)?@"
)
_PARAMETER: Final = re.compile(r"(?P<name>[?&][a-z_]*passw(?:or)?d=)(?P<value>[^&#\s,]+)", re.IGNORECASE)
_NAMELESS: Final = frozenset({"nats", "tls", "ws", "wss"})
"""Schemes in which a user without a password is a token."""


def hide_passwords(text: str) -> str:
    """Return a text whose addresses show no password and no token."""
    return _PARAMETER.sub(lambda found: found["name"] + HIDDEN, _USER_INFO.sub(_hide, text))


def passwords_in(text: str) -> Iterator[str]:
    """Yield the passwords and tokens in the addresses of a text, as they are written and as they are meant."""
    if "://" not in text:
        return
    for found in _USER_INFO.finditer(text):
        yield from _spellings(_secret(found))
    for found in _PARAMETER.finditer(text):
        yield from _spellings(found["value"])


def _secret(found: re.Match[str]) -> str:
    if found["password"] is not None:
        return found["password"][1:]
    return found["user"] if found["scheme"] in _NAMELESS else ""


def _spellings(secret: str) -> Iterator[str]:
    if secret:
        yield from {secret, unquote(secret)}


def _hide(found: re.Match[str]) -> str:
    user = found["user"]
    if found["password"] is not None:
        return f"{found['scheme']}://{user}:{HIDDEN}@"
    return f"{found['scheme']}://{HIDDEN if found['scheme'] in _NAMELESS and user else user}@"
