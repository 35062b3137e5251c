"""One signature for a plan of many machines: each gets a proof that its own call is among those that were signed.

The hashes of all calls are the leaves of a tree (as in RFC 6962), whose root is signed. A call carries the signature
and the hashes beside its way to the root: thirteen for five thousand machines.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

PLAN_MESSAGE: Final = "fabric-plan-approval-v1"
MAX_STEPS: Final = 32
_LEFT, _RIGHT = "left", "right"


def plan_message(root: str) -> bytes:
    """Return what an approver signs for all calls of a plan."""
    return f"{PLAN_MESSAGE}\n{root}\n".encode()


def root_of(hashes: Sequence[str]) -> str:
    """Return the root of the tree over the hashes of a plan's calls.

    Raises:
        ValueError: there are none, or one is no hash.
    """
    level = [_leaf(each) for each in hashes]
    if not level:
        raise ValueError("a plan has at least one call")
    while len(level) > 1:
        level = _above(level)
    return level[0].hex()


def paths_of(hashes: Sequence[str]) -> list[list[list[str]]]:
    """Return, for each hash, what leads from it to the root: which side the neighbour is on, and its hash."""
    paths: list[list[list[str]]] = [[] for _ in hashes]
    level, places = [_leaf(each) for each in hashes], list(range(len(hashes)))
    while len(level) > 1:
        for number, place in enumerate(places):
            beside = place ^ 1
            if beside < len(level):
                paths[number].append([_LEFT if beside < place else _RIGHT, level[beside].hex()])
        level, places = _above(level), [place // 2 for place in places]
    return paths


def root_from(bound: str, path: Any) -> str:
    """Return the root that a call's hash and its path lead to; empty: the path is none. Never raises."""
    if not isinstance(path, list) or len(path) > MAX_STEPS:
        return ""
    try:
        found = _leaf(bound)
        for side, beside in path:
            neighbour = bytes.fromhex(beside)
            if side not in {_LEFT, _RIGHT} or len(neighbour) != hashlib.sha256().digest_size:
                return ""
            found = _inner(neighbour, found) if side == _LEFT else _inner(found, neighbour)
    except (TypeError, ValueError):
        return ""
    return found.hex()


def signatures_for(
    number: int, paths: Sequence[list[list[str]]], signatures: Sequence[Mapping[str, Any]]
) -> tuple[Mapping[str, Any], ...]:
    """Return the signatures of a plan as one of its calls carries them."""
    return tuple({**each, "path": paths[number]} for each in signatures)


def _above(level: Sequence[bytes]) -> list[bytes]:
    pairs = [_inner(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
    return [*pairs, level[-1]] if len(level) % 2 else pairs


def _leaf(bound: str) -> bytes:
    return hashlib.sha256(b"\x00" + bytes.fromhex(bound)).digest()


def _inner(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
