"""What is under way ends when others may drive the run by now."""

import asyncio
from collections.abc import Sequence

import pytest

from agent_fabric.application.ports.runs import InboxRow
from agent_fabric.domain.errors import LeaseLost
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import LLMResponse, Message
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def
from agent_fabric.testing.fakes import MemoryRuns
from agent_fabric.testing.workbench import workbench


class LosingRuns(MemoryRuns):
    """Runs whose lease is lost while the model is being asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def rows(self, run_id: RunId, after: int) -> Sequence[InboxRow]:
        await self.asked.wait()
        raise LeaseLost("away for too long")


def pack(_: str) -> BaseSpecialistPack:
    return BaseSpecialistPack(
        system_prompt="", tools=[], finish=make_finish_tool_def({"summary": {"type": "string"}}, required=("summary",))
    )


@pytest.mark.proves("SC-6")
async def test_an_effect_that_goes_on_in_this_process_ends_with_the_lease() -> None:
    runs, ended = LosingRuns(), asyncio.Event()

    async def answer(_: Sequence[Message]) -> LLMResponse:
        runs.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with asyncio.timeout(60):
        with pytest.raises(LeaseLost):
            await workbench(pack, answer, runs=runs).run()
    assert ended.is_set()
    assert not runs.held
