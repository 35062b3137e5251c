"""Requests that may come more than once, and shall be carried out once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_fabric.domain.ids import RunId


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What was answered to a request."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What is known about a key that somebody chose for a request."""

    run_id: RunId
    """The run that the request starts, if it starts one. Chosen before, so that it is the same every time."""
    is_new: bool
    """Whether nobody has used the key before."""
    same_request: bool
    """Whether it was used for this very request."""
    answer: KeptAnswer | None = None


class IdempotencyStore(Protocol):
    """Remembers for a day which requests came under which keys, and what was answered."""

    async def claim(self, who: str, key: str, request: bytes) -> Claim:
        """Note, durably, that somebody sends a request under a key, and return what is known about that key.

        Args:
            who: The key is theirs; others may use the same for something else.
            key: What they chose.
            request: A digest of the request.
        """
        ...

    async def keep(self, who: str, key: str, answer: KeptAnswer, *, about: Sequence[str] = ()) -> None:
        """Keep what was answered, unless it tells of a run that is encrypted: then only the run's id stays.

        `about` has the ids, or beginnings of ids, of other runs and approvals that the answer may tell of.
        """
        ...
