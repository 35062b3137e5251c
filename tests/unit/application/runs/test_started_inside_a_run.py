"""What a process of a run starts is the run's."""

from collections import Counter

import pytest

from agent_fabric.domain.events import RunCreated
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.testing.workbench import workbench
from integration.persistence.five_steps import answers_of, looking_pack


@pytest.mark.proves("WA-5")
async def test_a_run_that_a_process_of_a_run_starts_says_so_and_has_both_labels() -> None:
    bench = workbench(lambda _: looking_pack(Counter()), answers_of(1))
    object.__setattr__(bench.execute_task, "started_by", "the-first")
    result = await bench.run()
    events = await bench.runs.read(result.run_id)
    assert isinstance(events[0].body, RunCreated)
    assert events[0].body.started_by == "the-first"
    state = fold(result.run_id, events[:1])
    assert "run the-first" in state.untrusted
    assert "run the-first" in state.private
