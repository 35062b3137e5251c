"""Events as they are read back from a log, whatever version of this program wrote them."""

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from agent_fabric.domain.deserialize import reader_of
from agent_fabric.domain.events import Body, UnknownEvent

_CLASSES: Final[Mapping[str, Any]] = {cls.kind: cls for cls in get_args(Body) if cls is not UnknownEvent}

Upcaster = Callable[[Mapping[str, Any]], Mapping[str, Any]]

UPCASTERS: Mapping[str, tuple[Upcaster, ...]] = {}
"""For each kind the functions that lift a payload from version 1 to 2, from 2 to 3, …"""


VERSIONS: Final = {kind: len(steps) + 1 for kind, steps in UPCASTERS.items()}
"""The version in which this program writes a kind, if it is not the first."""


def version_of(kind: str) -> int:
    """Return the version in which this program writes a kind."""
    return VERSIONS.get(kind, 1)


def is_known(kind: str, version: int) -> bool:
    """Tell whether this program reads events of a kind in this version."""
    return kind in _CLASSES and version <= version_of(kind)


def body_from(
    kind: str, version: int, payload: Mapping[str, Any], *, upcasters: Mapping[str, tuple[Upcaster, ...]] = UPCASTERS
) -> Body:
    """Read an event's body back from a log, whatever version wrote it."""
    cls = _CLASSES.get(kind)
    steps = upcasters.get(kind, ())
    if cls is None or version > len(steps) + 1:
        return UnknownEvent(kind=kind, payload=payload)
    for lift in steps[version - 1 :]:
        payload = lift(payload)
    try:
        body: Body = reader_of(cls)(payload)
    except (KeyError, TypeError, ValueError, AttributeError):
        return UnknownEvent(kind=kind, payload=payload)  # a value that only a newer program knows
    return body
