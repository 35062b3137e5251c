"""Idempotency keys: a repeated request is carried out once."""

from collections.abc import Sequence
from typing import Protocol

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The answer to a request."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What is known about an idempotency key."""

    run_id: RunId
    """The run that the request starts, if it starts one. Chosen before, so that it is the same every time."""
    is_new: bool
    """Whether the key was not used before."""
    same_request: bool
    """Whether it was used for this very request."""
    answer: KeptAnswer | None = None


class IdempotencyStore(Protocol):
    """Remembers for a day which requests came under which keys, and what was answered."""

    async def claim(self, who: str, key: str, request: bytes) -> Claim:
        """Record, durably, a request under a key, and return what is known about that key.

        Args:
            who: The caller. Other callers may use the same key for something else.
            key: The key.
            request: A digest of the request.
        """
        ...

    async def keep(self, who: str, key: str, answer: KeptAnswer, *, about: Sequence[str] = ()) -> None:
        """Keep what was answered, unless it tells of a run that is encrypted: then only the run's id stays.

        `about` has the ids, or beginnings of ids, of other runs and approvals that the answer may tell of.
        """
        ...
