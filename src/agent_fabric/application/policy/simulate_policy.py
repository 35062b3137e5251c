"""Decides about past calls once more, by another policy, to see what it would change."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent_fabric.application.ports.runs import RunCatalogue, RunRepository
from agent_fabric.application.tools.call_site import CallSite, own_limits, user_scopes
from agent_fabric.application.tools.proposed_call import propose
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import RunKeyMissing
from agent_fabric.domain.events import Event, RunCreated, ToolCalled
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.policy.calls import Policy, ProposedCall
from agent_fabric.domain.policy.programs import BOXES
from agent_fabric.domain.policy.verdicts import Ruling
from agent_fabric.domain.runs.evolve import evolve
from agent_fabric.domain.runs.labelling import flow_of
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.tools.specs import FINISH_TASK, Effect, ToolSpec

EVERY_RUN = -1


class PastCall(NamedTuple):
    """A call that someone once wanted to make."""

    run_id: RunId
    ts: float
    call: ProposedCall


class DecisionChange(NamedTuple):
    """A call about which the other policy says something else."""

    past: PastCall
    before: Ruling
    after: Ruling

    @property
    def what(self) -> str:
        """The call in a few words."""
        call = self.past.call
        return call.command or " ".join([call.tool, *call.paths, *call.urls])


@dataclass(frozen=True, slots=True)
class Simulation:
    """What another policy would have changed."""

    runs: int
    calls: int
    changes: tuple[DecisionChange, ...]


@dataclass(frozen=True, slots=True)
class SimulatePolicy:
    """Use case: hold the calls of past runs against two policies."""

    catalogue: RunCatalogue
    runs: RunRepository

    async def __call__(self, before: Policy, after: Policy, *, since: float, viewer: Viewer = EVERYTHING) -> Simulation:
        """Compare the verdicts of two policies on every call made at `since` or later, in runs that the viewer sees."""
        seen = calls = 0
        changes: list[DecisionChange] = []
        for record in await self.catalogue.recent(limit=EVERY_RUN):
            if record.updated_at < since or not viewer.sees(record.owner, record.visibility):
                continue
            try:
                events = await self.runs.read(record.run_id)
            except RunKeyMissing:
                continue  # what no one here can read cannot be compared
            seen += 1
            for past in past_calls(record.run_id, events):
                if past.ts < since:
                    continue
                calls += 1
                old, new = before.judge(past.call), after.judge(past.call)
                if old.verdict is not new.verdict:
                    changes.append(DecisionChange(past, old, new))
        return Simulation(seen, calls, tuple(changes))


def past_calls(run_id: RunId, events: Sequence[Event]) -> Iterator[PastCall]:
    """Yield the calls of a run as the policy saw them, also those that were refused or are still waiting."""
    state, sandbox = RunState(run_id), "C"
    asked: set[str] = set()
    for event in events:
        match event.body:
            case RunCreated() as created:
                # The events of earlier versions name the level in words.
                sandbox = created.sandbox if created.sandbox in BOXES else "C"
            case ApprovalRequested() as body:
                asked.add(body.call_id)
                yield PastCall(run_id, event.ts, _call(state, event.lane, body, sandbox))
            case ToolCalled(tool=tool, args=args) as body if body.call_id not in asked:
                if tool != FINISH_TASK and "unparsed" not in args:
                    yield PastCall(run_id, event.ts, _call(state, event.lane, body, sandbox))
            case _:
                pass
        evolve(state, event)


def _call(state: RunState, lane_id: LaneId | None, body: ToolCalled | ApprovalRequested, sandbox: str) -> ProposedCall:
    lane = None if lane_id is None else state.lanes.get(lane_id)
    spec = None if lane is None else lane.tools.get(body.tool)
    site = CallSite(
        run_id=state.run_id,
        lane=lane_id or LaneId(""),
        step=0,
        agent="" if lane is None else lane.specialist_id,
        target=state.workspace,
        scopes=user_scopes(state),
        limits=own_limits(state),
        flow=flow_of(state),
    )
    unknown = ToolSpec(name=body.tool, description="", parameters={}, effect=Effect.LEAVES_SANDBOX)
    return propose(spec or unknown, body.args, site, sandbox)
