"""Workflows that a server runs, as jobs that a command looks at."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.domain.workflows.events import StepFinished
from agent_fabric.interfaces.cli.place import RunChoice
from agent_fabric.interfaces.cli.runs.foreground import Job, OnCreated
from agent_fabric.interfaces.cli.runs.foreground_remote import RemoteForeground, remote_job
from agent_fabric.interfaces.cli.workflows.inputs import typed_inputs
from agent_fabric.interfaces.cli.workflows.workflow_texts import tell_kept
from agent_fabric.interfaces.views.workflows.result import workflow_of
from agent_fabric.interfaces.views.workflows.views import found_from
from agent_fabric.wire.shape import Json


def run_there(url: str, name: str, inputs: Mapping[str, Any], **options: Any) -> Job:
    """Let a server run one of its workflows, with the options of `Workflows.start`."""
    return remote_job(
        url,
        lambda there, on_created: there.begin(there.client.workflows.start(name, inputs, **options), on_created),
    )


def resume_there(url: str, chosen: RunChoice, *, from_step: str | None, current: bool, inputs: Sequence[str]) -> Job:
    """Let a server continue a workflow, in a new run where that is asked for or the old one has failed."""

    async def work(there: RemoteForeground, on_created: OnCreated) -> RunResult:
        workflows = there.client.workflows
        found = await chosen.find(there.place)
        state = fold(found, await there.events(found))
        workflow_of(state)
        if from_step is None and not current and (not state.status.settled or state.status is RunStatus.COMPLETED):
            return await there.resume(found, on_created)

        async def fork() -> RunId:
            given: dict[str, Any] = {}
            if inputs:
                shown: Json = await workflows.run(found)
                definition = found_from(await workflows.show(shown["_meta"]["workflow"]["name"])).usable()
                given = typed_inputs(inputs, definition.inputs, of=f"The workflow {definition.name!r}")
            new = await workflows.resume(found, from_step=from_step, current=current, inputs=given)
            tell_kept(found, await _kept_by(there, new))
            return new

        return await there.begin(fork(), on_created)

    return remote_job(url, work)


async def _kept_by(there: RemoteForeground, run_id: RunId) -> list[LaneId]:
    events = await there.events(run_id)
    return [
        event.lane
        for event in events
        if event.lane is not None and isinstance(event.body, StepFinished) and event.body.reused_from is not None
    ]
