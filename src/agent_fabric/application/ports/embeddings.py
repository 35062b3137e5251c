"""Meaning as vectors: who makes them, and where those of runs are kept."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer

if TYPE_CHECKING:
    from agent_fabric.application.ports.runs import FoundRun

Vector = bytes
"""Little-endian float32 numbers, together of length 1 (or 0, for a text that says nothing)."""


class Embedder(Protocol):
    """Turns texts into vectors; those of texts that mean the same lie close together."""

    @property
    def name(self) -> str:
        """Names model and version. Vectors of different names must not be compared."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has; 0 as long as that is not known."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Return one vector for each text, in order. Long texts are cut; any text is taken, also an empty one.

        Raises:
            ModelError: the server gave no usable answer.
        """
        ...


class RunText(NamedTuple):
    """What a run was about."""

    number: int
    """The store's own number of the run."""
    text: str
    """Its task and its result, shortened."""


class RunVectors(Protocol):
    """The vectors of settled runs, shared by all processes that use the same store."""

    async def missing(self, embedder: str, *, dimensions: int) -> Sequence[int]:
        """Return the settled runs without a vector of this embedder and size, newest first."""
        ...

    async def texts(self, numbers: Sequence[int]) -> Sequence[RunText]:
        """Return what these runs were about."""
        ...

    async def keep(self, embedder: str, texts: Sequence[RunText], vectors: Sequence[Vector]) -> None:
        """Keep a vector for each text; one that is there already is replaced.

        Raises:
            StoreFull, StoreUnavailable: nothing was written.
        """
        ...

    async def nearest(
        self, embedder: str, question: Vector, *, words: str, limit: int, viewer: Viewer = EVERYTHING
    ) -> "Sequence[FoundRun]":
        """Return the runs nearest to the question, of those that the viewer may see, the best first.

        Runs that share its words gain a little.
        """
        ...
