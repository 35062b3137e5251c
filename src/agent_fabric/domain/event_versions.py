"""Events as they are read back from a log, whatever version of this program wrote them."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from agent_fabric.domain.agents.brief import AgentBrief
from agent_fabric.domain.approval_events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.approvals import Decision, Question, Reach
from agent_fabric.domain.events import (
    Body,
    BudgetExhausted,
    CloudFallbackUsed,
    ContextCompacted,
    ContextTruncated,
    GuidanceGiven,
    ModelAnswered,
    ModelCalled,
    ModelFailed,
    PackFailed,
    PackStarted,
    PlainAnswerAccepted,
    RunCancelled,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunWaited,
    SecurityViolated,
    SpecialistsRecruited,
    TaskForceStarted,
    ToolCalled,
    ToolCallRecovered,
    ToolErred,
    ToolReturned,
    UnknownEvent,
)
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.messages import ModelPrice, ModelSettings, ToolCallRequest, Usage
from agent_fabric.domain.packs import FinishSpec
from agent_fabric.domain.runs.task import Budget, FrozenWorkflow, Parent, Priority, Profile, TaskForceMode
from agent_fabric.domain.sources import Source
from agent_fabric.domain.tools import Effect, ToolSpec, Trust
from agent_fabric.domain.workflow_events import (
    ChildFinished,
    SignalReceived,
    StepFinished,
    StepRetried,
    StepStarted,
    StepStatus,
    StepWaited,
    TimerFired,
)

Upcaster = Callable[[Mapping[str, Any]], Mapping[str, Any]]

UPCASTERS: Mapping[str, tuple[Upcaster, ...]] = {}
"""For each kind the functions that lift a payload from version 1 to 2, from 2 to 3, …"""


def version_of(kind: str) -> int:
    """Return the version in which this program writes a kind."""
    return len(UPCASTERS.get(kind, ())) + 1


def body_from(
    kind: str,
    version: int,
    payload: Mapping[str, Any],
    *,
    upcasters: Mapping[str, tuple[Upcaster, ...]] = UPCASTERS,
) -> Body:
    """Read an event's body back from a log, whatever version wrote it."""
    read = _READERS.get(kind)
    steps = upcasters.get(kind, ())
    if read is None or version > len(steps) + 1:
        return UnknownEvent(kind=kind, payload=payload)
    for lift in steps[version - 1 :]:
        payload = lift(payload)
    try:
        body: Body = read(payload)
    except (KeyError, TypeError, ValueError, AttributeError):
        return UnknownEvent(kind=kind, payload=payload)  # a value that only a newer program knows
    return body


def _reader(cls: type[Any], **nested: Callable[[Any], Any]) -> Callable[[Mapping[str, Any]], Any]:
    known = frozenset(each.name for each in fields(cls))

    def read(payload: Mapping[str, Any]) -> Any:
        # A field that a newer program added beside ours says nothing that we need.
        values = {name: value for name, value in payload.items() if name in known}
        for name, convert in nested.items():
            if name in values:
                values[name] = convert(values[name])
        return cls(**values)

    return read


def _calls(values: list[Mapping[str, str]]) -> tuple[ToolCallRequest, ...]:
    return tuple(ToolCallRequest(CallId(v["call_id"]), v["tool"], v["arguments"]) for v in values)


def _tools(values: list[Mapping[str, Any]]) -> tuple[ToolSpec, ...]:
    return tuple(_read_tool(value) for value in values)


def _sources(values: list[Mapping[str, Any]]) -> tuple[Source, ...]:
    return tuple(_read_source(value) for value in values)


_read_tool = _reader(ToolSpec, effect=Effect, path_arguments=tuple, trust=Trust)
_read_source = _reader(Source)
_usage = _reader(Usage)


def _if_any(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _reads(value: Mapping[str, list[str]]) -> Mapping[str, tuple[str, ...]]:
    return {name: tuple(sources) for name, sources in value.items()}


def _price(value: Mapping[str, Any] | None) -> ModelPrice | None:
    price: ModelPrice | None = None if value is None else _read_price(value)
    return price


_read_price = _reader(ModelPrice)

_READERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    cls.kind: reader
    for cls, reader in (
        (
            RunCreated,
            _reader(
                RunCreated,
                profile=Profile,
                budget=_reader(Budget),
                specialist_ids=tuple,
                task_force_mode=TaskForceMode,
                priority=Priority,
                signals=tuple,
                workflow=_if_any(_reader(FrozenWorkflow, exclusive=tuple, untrusted=tuple)),
                parent=_if_any(_reader(Parent)),
                agent=_if_any(
                    _reader(
                        AgentBrief,
                        capabilities=tuple,
                        command_allowlist=tuple,
                        path_allowlist=tuple,
                        domain_allowlist=tuple,
                    )
                ),
                user_scopes=tuple,
            ),
        ),
        (
            SpecialistsRecruited,
            _reader(SpecialistsRecruited, specialist_ids=tuple, required_capabilities=tuple, reasons=tuple),
        ),
        (TaskForceStarted, _reader(TaskForceStarted, specialist_ids=tuple, mode=TaskForceMode)),
        (PackFailed, _reader(PackFailed)),
        (
            PackStarted,
            _reader(PackStarted, tools=_tools, finish=_reader(FinishSpec), model=_reader(ModelSettings, price=_price)),
        ),
        (ModelCalled, _reader(ModelCalled)),
        (ModelAnswered, _reader(ModelAnswered, tool_calls=_calls, usage=_usage)),
        (ModelFailed, _reader(ModelFailed)),
        (ToolCallRecovered, _reader(ToolCallRecovered, tools=tuple)),
        (CloudFallbackUsed, _reader(CloudFallbackUsed)),
        (ContextTruncated, _reader(ContextTruncated)),
        (ToolCalled, _reader(ToolCalled)),
        (ToolReturned, _reader(ToolReturned, sources=_sources, wrote=tuple, trust=Trust, signals=tuple)),
        (ToolErred, _reader(ToolErred)),
        (ApprovalRequested, _reader(ApprovalRequested, question=Question, untrusted=tuple)),
        (ApprovalDecided, _reader(ApprovalDecided, decision=Decision, reach=Reach)),
        (SecurityViolated, _reader(SecurityViolated)),
        (GuidanceGiven, _reader(GuidanceGiven)),
        (ContextCompacted, _reader(ContextCompacted, usage=_usage)),
        (PlainAnswerAccepted, _reader(PlainAnswerAccepted)),
        (BudgetExhausted, _reader(BudgetExhausted)),
        (StepStarted, _reader(StepStarted, reads=_reads, status=StepStatus)),
        (StepWaited, _reader(StepWaited, approvals=tuple, status=StepStatus)),
        (StepRetried, _reader(StepRetried, status=StepStatus)),
        (StepFinished, _reader(StepFinished, reads=_reads, status=StepStatus)),
        (TimerFired, _reader(TimerFired)),
        (SignalReceived, _reader(SignalReceived)),
        (ChildFinished, _reader(ChildFinished)),
        (RunWaited, _reader(RunWaited, approvals=tuple)),
        (RunResumed, _reader(RunResumed)),
        (RunCompleted, _reader(RunCompleted, specialist_ids=tuple)),
        (RunFailed, _reader(RunFailed)),
        (RunCancelled, _reader(RunCancelled)),
        (RunInterrupted, _reader(RunInterrupted)),
    )
}
