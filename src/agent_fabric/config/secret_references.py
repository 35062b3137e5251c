"""What settings refer to without holding it: `env:NAME`, `file:NAME`, `vault:path#field`; passwords in addresses."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
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


NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
"""Of a variable of the environment."""
FILE_NAME: Final = r"[A-Za-z_][A-Za-z0-9_-]{0,127}"
"""Of a secret in our own file. It has no dot: `file:data.db` is no secret but the address of a database."""
_SEGMENT: Final = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_VAULT: Final = rf"{_SEGMENT}(?:/{_SEGMENT})*#[A-Za-z0-9_.-]+"
PATTERN: Final = rf"(?:env:{NAME}|file:{FILE_NAME}|vault:{_VAULT})"
"""A reference, as a regular expression."""

_WHOLE: Final = re.compile(rf"(?:(?P<scheme>[A-Za-z]+) )?(?P<reference>{PATTERN})")
_VARIABLE: Final = re.compile(rf"\benv:({NAME})")


class SecretReference(NamedTuple):
    """A reference as it stands in a setting."""

    text: str
    """The reference itself, such as `env:NAME`."""
    scheme: str = ""
    """The word before it, as in `Bearer env:NAME`."""

    @property
    def source(self) -> str:
        """Where the secret is: `env`, `file` or `vault`."""
        return self.text.partition(":")[0]

    @property
    def name(self) -> str:
        """What it is called there."""
        return self.text.partition(":")[2]


def reference_in(value: str) -> SecretReference | None:
    """Return the reference that a value is, alone or behind one word; None if it is plain text."""
    found = _WHOLE.fullmatch(value)
    return None if found is None else SecretReference(found["reference"], found["scheme"] or "")


def is_reference(value: str) -> bool:
    """Tell whether a value is a reference and nothing else."""
    found = reference_in(value)
    return found is not None and not found.scheme


def secrets_named_in(settings: object, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values of all variables that settings refer to as `env:NAME`, and the passwords in addresses.

    What is in a file or a vault is not fetched for this: it becomes known when it is first used.
    """
    texts = tuple(_texts(settings))
    named = {environ[name] for text in texts for name in _VARIABLE.findall(text) if environ.get(name)}
    return frozenset(named.union(*map(passwords_in, (*texts, *named))))


def _texts(settings: object) -> Iterator[str]:
    match settings:
        case str():
            yield settings
        case Mapping():
            for item in settings.values():
                yield from _texts(item)
        case list() | tuple():
            for item in settings:
                yield from _texts(item)
        case _:
            pass  # numbers and the like
