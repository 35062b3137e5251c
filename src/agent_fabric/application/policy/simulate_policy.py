"""Decides about past calls once more, by another policy, to see what it would change."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agent_fabric.application.ports.runs import RunCatalogue, RunRepository
from agent_fabric.domain.allowlists import Allowlists
from agent_fabric.domain.approval_events import ApprovalRequested
from agent_fabric.domain.errors import RunKeyMissing
from agent_fabric.domain.events import Event, PackStarted, RunCreated, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.policy.calls import Policy, ProposedCall
from agent_fabric.domain.policy.verdicts import Ruling
from agent_fabric.domain.tools import FINISH_TASK, Effect, ToolSpec

EVERY_RUN = -1


class PastCall(NamedTuple):
    """A call that somebody once wanted to make."""

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

    async def __call__(self, before: Policy, after: Policy, *, since: float) -> Simulation:
        """Compare the verdicts of two policies on every call made at `since` or later."""
        seen = calls = 0
        changes: list[DecisionChange] = []
        for record in await self.catalogue.recent(limit=EVERY_RUN):
            if record.updated_at < since:
                continue
            try:
                events = await self.runs.read(record.run_id)
            except RunKeyMissing:
                continue  # what nobody here can read cannot be compared
            seen += 1
            for past in past_calls(record.run_id, events):
                if past.ts < since:
                    continue
                calls += 1
                old, new = before.judge(past.call), after.judge(past.call)
                if old.verdict is not new.verdict:
                    changes.append(DecisionChange(past, old, new))
        return Simulation(seen, calls, tuple(changes))


@dataclass(slots=True)
class _Seen:
    """What a run was like when a call was made."""

    sandbox: str = "C"
    scopes: frozenset[str] = frozenset()
    workspace: str = ""
    limits: tuple[Allowlists, ...] = ()
    tools: dict[tuple[LaneId | None, str], ToolSpec] = field(default_factory=dict)
    agents: dict[LaneId | None, str] = field(default_factory=dict)
    untrusted: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)


def past_calls(run_id: RunId, events: Sequence[Event]) -> Iterator[PastCall]:
    """Yield the calls of a run as the policy saw them, also those that were refused or are still waiting."""
    seen = _Seen()
    for event in events:
        match event.body:
            case RunCreated(sandbox=sandbox) as created:
                seen.scopes = frozenset(created.user_scopes)
                seen.workspace = created.workspace
                seen.limits = () if created.agent is None else created.agent.limits
                # The events of earlier versions name the level in words.
                seen.sandbox = sandbox if sandbox in {"A", "A+", "B"} else "C"
            case PackStarted() as started:
                seen.agents[event.lane] = str(started.specialist_id)
                seen.tools.update({(event.lane, tool.name): tool for tool in started.tools})
            case ApprovalRequested() as asked:
                seen.asked.add(asked.call_id)
                yield PastCall(run_id, event.ts, _call(event, asked, seen))
            case ToolCalled(tool=tool, args=args) as called if called.call_id not in seen.asked:
                if tool == FINISH_TASK or "unparsed" in args:
                    continue
                yield PastCall(run_id, event.ts, _call(event, called, seen))
            case ToolReturned(origin=origin) | ToolErred(origin=origin) if origin and origin not in seen.untrusted:
                seen.untrusted.append(origin)
            case _:
                pass


def _call(event: Event, body: ToolCalled | ApprovalRequested, seen: _Seen) -> ProposedCall:
    spec = seen.tools.get((event.lane, body.tool))
    args = body.args
    command, paths, url = (spec.command_argument, spec.path_arguments, spec.url_argument) if spec else ("", (), "")
    return ProposedCall(
        tool=body.tool,
        args=args,
        effect=spec.effect if spec else Effect.LEAVES_SANDBOX,
        command=str(args.get(command, "")) if command else "",
        paths=tuple(str(args[name]) for name in paths if name in args),
        urls=(str(args[url]),) if url and args.get(url) else (),
        agent=seen.agents.get(event.lane, ""),
        sandbox=seen.sandbox,
        scopes=seen.scopes,
        workspace=seen.workspace,
        limits=seen.limits,
        untrusted=tuple(seen.untrusted),
    )
