"""Two labels that follow what a run has read, and decide what may leave the machine unasked.

A run is *exposed* once it has read text that neither its owner nor its workspace wrote: such text may give orders. It
is *private* once it has read what the world must not have. A run with both labels could be talked into sending the
one to the author of the other. Where the bytes came from decides; names of tools and servers do not.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from agent_fabric.domain.dataclass import dataclass

WORKSPACE_FILES: Final = "files of the workspace"
NO_BOX: Final = "commands without a box"
OTHER_RUNS: Final = "other runs"
MACHINES: Final = "the list of machines"
"""Names and labels of the fleet. The world must not have them; machines of the fleet may know of each other."""
_MACHINE: Final = "node: "
"""Begins the name of a machine of the fleet, as a source and as a destination."""
DESCRIPTIONS: Final = "descriptions of tools of "
"""Begins the name of a source: what a tool server says about its tools."""

_WROTE: Final = re.compile(r"the file (.+), which run \S+ wrote after it had read untrusted text")
_MAY_HAVE_WRITTEN: Final = re.compile(r"files that run \S+ may have written after it had read untrusted text")

MAX_ADDRESSES: Final = 5_000
"""That a run remembers; later ones count as composed by the model."""
_ADDRESS: Final = re.compile(r"https?://[^\s<>\"'`\\^{}|]+", re.IGNORECASE)
_NAMED: Final = re.compile(r"(?<![\w@/.:-])(?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d+)?(?:/[^\s<>\"'`\\^{}|]*)?", re.IGNORECASE)
"""An address without a scheme, as people write it: `example.org/page`."""
_PUNCTUATION: Final = ".,;:!?*_)]}\u201d\u2019\u00bb"
"""Ends a sentence rather than an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What a run has read and sent so far, as far as it decides about an outgoing call."""

    exposed: Sequence[str] = ()
    """Sources of text that neither the owner nor the workspace wrote."""
    private: Sequence[str] = ()
    """Sources of what the world must not have."""
    task: str = ""
    """What the owner has written: the task, or the workflow."""
    addresses: Collection[str] = frozenset()
    """Addresses that stood in what was read from outside."""
    fetched: Collection[str] = frozenset()
    """Addresses of pages that the run has fetched and kept."""
    fetches: int = 0
    """Calls that went unasked to one of `addresses`, while both labels held."""
    searches: int = 0
    """Searches that went unasked while both labels held."""
    task_calls: int = 0
    """Calls with addresses or arguments of the task, or of earlier calls, that went unasked while both labels held."""
    sent: Collection[str] = frozenset()
    """Calls to machines, each without its machine, that were made before the run had read anything private."""

    @property
    def results(self) -> Sequence[str]:
        """The sources of untrusted text that a call has brought, beside descriptions of tools."""
        return [source for source in self.exposed if not source.startswith(DESCRIPTIONS)]

    def private_beside(self, destination: str) -> Sequence[str]:
        """Return the sources of private data, but for the destination itself: it knows what it said."""
        known = {destination, MACHINES} if destination.startswith(_MACHINE) else {destination}
        return [source for source in self.private if source not in known]


NOTHING_READ: Final = Flow()


def machine_source(name: str) -> str:
    """Name a machine of the fleet as a source of untrusted text and private data, and as a destination of calls."""
    return f"{_MACHINE}{name}"


def file_written(path: str, run_id: str) -> str:
    """Name a file as a source of untrusted text."""
    return f"the file {path}, which run {run_id} wrote after it had read untrusted text"


def files_maybe_written(run_id: str) -> str:
    """Name all files of a project as a source of untrusted text: a run was stopped before it could say which."""
    return f"files that run {run_id} may have written after it had read untrusted text"


def paths_to_vouch_for(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the files among sources of untrusted text, as a person names them who vouches for them; `.` is all."""
    if any(map(_MAY_HAVE_WRITTEN.fullmatch, sources)):
        return (".",)
    return tuple(dict.fromkeys(found[1] for found in map(_WROTE.fullmatch, sources) if found is not None))


def address_key(url: str) -> str:
    """Return what identifies an address: host, path and query, without scheme and fragment."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return url
    if not parts.netloc:
        return url
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.netloc.lower()}{parts.path or '/'}{query}"


def addresses_in(value: Any) -> Iterator[str]:
    """Yield the keys of all addresses with a scheme that stand in a text, or in the texts of a JSON value."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text if "://" in text:
                for found in _ADDRESS.finditer(text):
                    yield from _keys(found[0])
            case Mapping() as mapping:
                waiting.extend(mapping.values())
            case list() | tuple() as items:
                waiting.extend(items)
            case _:
                pass


def addresses_written(text: str) -> Iterator[str]:
    """Yield the keys of all addresses in what a person or a model wrote, with or without a scheme."""
    yield from addresses_in(text)
    for found in _NAMED.finditer(text):
        yield from _keys(f"https://{found[0]}")


def stands_in_task(url: str, task: str) -> bool:
    """Tell whether an address stands verbatim in what the owner wrote, with or without its scheme."""
    key = address_key(url)
    return any(key == known for known in addresses_written(task))


def values_stand_in(task: str, args: Mapping[str, Any], known: Collection[str]) -> bool:
    """Tell whether every value of a call's arguments stands verbatim in what the owner wrote.

    Switches may be set freely. Names of arguments that are not `known` count as values.
    """
    return all((name in known or _stands(task, name)) and _value_stands(task, value) for name, value in args.items())


def _value_stands(task: str, value: Any) -> bool:
    match value:
        case None | bool() | "":
            return True
        case str() | int() | float():
            return _stands(task, str(value))
        case Mapping():
            return all(_stands(task, str(key)) and _value_stands(task, item) for key, item in value.items())
        case list() | tuple():
            return all(_value_stands(task, item) for item in value)
        case _:
            return False


def _stands(task: str, text: str) -> bool:
    """Tell whether a text stands in the task as words of its own."""
    at = task.find(text)
    while at >= 0:
        end = at + len(text)
        if not (_joins(task[at - 1 : at], text[:1]) or _joins(task[end : end + 1], text[-1:])):
            return True
        at = task.find(text, at + 1)
    return False


def _joins(outside: str, inside: str) -> bool:
    return _is_word(outside) and _is_word(inside)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _keys(found: str) -> Iterator[str]:
    """Yield the keys of an address as it stands in a text; what follows it may be punctuation or a part of it."""
    yield address_key(found)
    bare = found.rstrip(_PUNCTUATION)
    if bare != found:
        yield address_key(bare)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingLimits:
    """How often a run that is exposed and private may choose among addresses and words without a question."""

    fetches: int = 20
    task_calls: int = 40
    """With addresses and arguments that stand in the task: which of them, and in which order, is a choice, too."""
    searches: int = 20
    query_chars: int = 200
    """Of one search."""


USUAL_LIMITS = OutgoingLimits()
