"""What settings refer to without holding it: secrets in environment variables, named as `env:NAME`."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

_REFERENCE: Final = re.compile(r"\benv:([A-Za-z_][A-Za-z0-9_]*)")


def secrets_named_in(settings: object, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values of all variables that settings refer to as `env:NAME`, at any depth."""
    return frozenset(environ[name] for name in _references(settings) if environ.get(name))


def _references(settings: object) -> Iterator[str]:
    match settings:
        case str():
            yield from _REFERENCE.findall(settings)
        case Mapping():
            for item in settings.values():
                yield from _references(item)
        case list() | tuple():
            for item in settings:
                yield from _references(item)
        case _:
            pass  # numbers and the like
