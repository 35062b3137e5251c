"""Where it is noted which run has an answer already."""

from typing import Protocol

from agent_fabric.domain.ids import RunId


class ResponseIndex(Protocol):
    """Knows which run has answered a question. It holds no answer: that stands in the log of the run.

    A cache: what is lost is asked again. It may name a run that is gone, or that has not answered after all.
    """

    async def find(self, key: str) -> RunId | None:
        """Return the run that was noted last; None: none was, or no one can be asked now."""
        ...

    async def note(self, key: str, run_id: RunId) -> None:
        """Note that a run answers this question; may be lost."""
        ...
