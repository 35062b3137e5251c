"""Uses an answer of a model again, when the same owner asks the same."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from agent_fabric.application.ports.llm import OnDelta
from agent_fabric.application.ports.responses import ResponseIndex
from agent_fabric.application.ports.runs import RunReader
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import RunKeyMissing, RunNotFound
from agent_fabric.domain.events import Body, ModelAnswered, RunCreated
from agent_fabric.domain.models.events import CloudFallbackUsed
from agent_fabric.domain.models.messages import Message, ModelSettings, Usage
from agent_fabric.domain.runs.reuse import Asker, reuse_key
from agent_fabric.domain.runs.state import Lane, RunState
from agent_fabric.domain.tools.specs import ToolSpec

Ask = Callable[[], Awaitable[Sequence[Body]]]
"""Asks the model: the answer or the failure, and what is remarkable about it."""

_AT_ONCE: Final = 500
_COMPLETE: Final = frozenset({"stop", "tool_calls"})
"""How servers say that an answer was not cut."""


@dataclass(frozen=True, slots=True)
class ReuseAnswers:
    """Use case: find the answer in the log of the run that has it.

    Nothing is copied beside the logs: an answer is gone with its run, and what is encrypted stays so.
    """

    index: ResponseIndex
    reader: RunReader
    secret: bytes

    async def __call__(self, lane: Lane, state: RunState, ask: Ask, on_delta: OnDelta | None) -> Sequence[Body]:
        """Return the answer that is known, or ask for one and note it."""
        assert state.task is not None
        asker = Asker(state.run_id, state.task.owner, state.task.encrypted)
        key = self.key(lane.model, lane.messages, lane.offered, asker)
        if not key:
            return await ask()
        known = await self.find(key, asker)
        if known is not None:
            if on_delta is not None:
                on_delta(known.content)
            return (known,)
        answer, *remarks = await ask()
        if isinstance(answer, ModelAnswered) and not any(isinstance(each, CloudFallbackUsed) for each in remarks):
            answer = await self.note(key, answer, asker)
        return (answer, *remarks)

    def key(self, model: ModelSettings, messages: Sequence[Message], tools: Sequence[ToolSpec], asker: Asker) -> str:
        """Return what identifies the question; empty: its answer is not to be used again."""
        return reuse_key(self.secret, model, messages, tools, asker.owner)

    async def find(self, key: str, asker: Asker) -> ModelAnswered | None:
        """Return the answer as an event that names its origin; None: it has to be asked for."""
        run_id = await self.index.find(key)
        if run_id is None:
            return None
        after = -1
        try:
            while events := await self.reader.page(run_id, after=after, limit=_AT_ONCE):
                for event in events:
                    body = event.body
                    if isinstance(body, RunCreated) and body.encrypted and not asker.encrypted:
                        return None  # an open log must not come to hold it
                    if isinstance(body, ModelAnswered) and body.reuse_key == key:
                        origin = f"{run_id}#{event.seq}"
                        return replace(
                            body, usage=Usage(0, 0), duration_s=0.0, cost=None, egress="", reuse_key="", reused=origin
                        )
                after = events[-1].seq
        except (RunNotFound, RunKeyMissing):
            return None  # it was deleted, or cannot be read any more
        return None

    async def note(self, key: str, answer: ModelAnswered, asker: Asker) -> ModelAnswered:
        """Return the answer as it is logged, so that it can be found again; one that was cut is not."""
        if answer.problem or answer.finish_reason not in _COMPLETE:
            return answer
        await self.index.note(key, asker.run_id)
        return replace(answer, reuse_key=key)
