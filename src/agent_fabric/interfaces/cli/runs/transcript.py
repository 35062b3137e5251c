"""A run's log as a transcript: what was said, called, returned and agreed to, with times and costs."""

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from agent_fabric.domain.approvals.answers import Reach
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.events import (
    Body,
    BudgetExhausted,
    ContextCompacted,
    ContextTruncated,
    Event,
    GuidanceGiven,
    ModelAnswered,
    ModelCalled,
    ModelFailed,
    PackFailed,
    PackStarted,
    RunCancelled,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunWaited,
    SpecialistsRecruited,
    ToolCalled,
    ToolErred,
    ToolReturned,
    UnknownEvent,
    WorkspaceSaved,
)
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.ids import CallId, LaneId, RunId
from agent_fabric.domain.models.events import CloudFallbackUsed
from agent_fabric.domain.plural import counted
from agent_fabric.domain.runs.task import root_of
from agent_fabric.domain.tools.specs import FINISH_TASK
from agent_fabric.domain.workflows.events import (
    ChildFinished,
    SignalReceived,
    StepFinished,
    StepRetried,
    StepStarted,
    StepStatus,
    StepWaited,
)
from agent_fabric.interfaces.cli.durations import day, moment
from agent_fabric.interfaces.cli.output import paint, plain
from agent_fabric.interfaces.cli.runs.result_lines import warning_lines
from agent_fabric.interfaces.cli.runs.step_lines import seconds

MAX_FOLDED_LINES: Final = 20
MAX_FOLDED_CHARS: Final = 2_000
INDENT: Final = " " * 10
_UNFOLD: Final = "--full shows it"
_SCALARS: Final = (str, int, float, bool)
_QUIET: Final = frozenset(
    {"llm_request", "tool_call_recovered", "security_event", "task_force_parallel", "timer_fired"}
)
"""Kinds that a transcript shows only if they are asked for: other events say the same."""


class Transcript:
    """Turns events into lines, one event at a time. Its memory does not grow with the log."""

    def __init__(
        self, run_id: RunId, *, folded: bool = False, coloured: bool = False, every_kind: bool = False
    ) -> None:
        self._run_id = run_id
        self._folded = folded
        self._coloured = coloured
        self._every_kind = every_kind
        """Whether kinds that other events repeat are shown as well."""
        self._day = ""
        self._names_lanes = False
        """Whether each line says which specialist or step it is about."""
        self._tokens = 0
        self._cost: float | None = None
        self._answers = 0
        self._busy_s = 0.0
        self._requested: dict[LaneId | None, dict[CallId, str]] = {}
        """Arguments of the calls in the last answer of each lane, until the call is shown."""
        self._asking: dict[LaneId | None, ModelCalled] = {}
        """Models that have not answered yet."""
        self.has_warned = False
        """It was said that not all is done."""

    def lines(self, event: Event) -> Iterator[str]:
        """Yield the lines for an event."""
        self._count(event)
        body = event.body
        if isinstance(body, RunCreated):
            yield from self._created(event, body)
        elif self._every_kind or isinstance(body, UnknownEvent) or body.kind not in _QUIET:
            yield from self._dated(event)
            yield from self._shown(event, body)

    def rest(self) -> Iterator[str]:
        """Yield what is under way after the last event."""
        for lane, called in self._asking.items():
            whose = f" ({plain(lane)})" if lane else ""
            yield f"{INDENT}{self._paint('waits for the model', 'yellow')} {plain(called.model)}{whose}"

    def _count(self, event: Event) -> None:
        match event.body:
            case ModelCalled() as body:
                self._asking[event.lane] = body
            case ModelAnswered() as body:
                self._asking.pop(event.lane, None)
                self._requested[event.lane] = {call.call_id: call.arguments for call in body.tool_calls}
                self._answers += 1
                self._tokens += body.usage.prompt_tokens + body.usage.completion_tokens
                self._busy_s += body.duration_s
                if body.cost is not None:
                    self._cost = (self._cost or 0.0) + body.cost
            case ModelFailed() as body:
                self._asking.pop(event.lane, None)
                self._busy_s += body.duration_s
            case ContextCompacted() as body:
                self._tokens += body.usage.prompt_tokens + body.usage.completion_tokens
                self._busy_s += body.duration_s
            case ToolReturned() | ToolErred() as body:
                self._busy_s += body.duration_s
            case RunCompleted() | RunFailed() | RunCancelled() | RunInterrupted() | RunResumed():
                self._asking.clear()
            case _:
                pass

    def _created(self, event: Event, body: RunCreated) -> Iterator[str]:
        self._day, self._names_lanes = day(event.ts), body.workflow is not None
        private = " (private)" if body.visibility is Visibility.PRIVATE else ""
        facts = [f"owner {plain(body.task.owner)}{private}", f"sandbox {plain(body.sandbox)}", moment(event.ts)]
        if body.encrypted:
            facts.append("encrypted")
        yield f"{self._paint(f'run {self._run_id}', 'bold')} · {' · '.join(facts)}"
        if body.continues is not None:
            yield f"continues run {plain(body.continues)}"
        if body.started_by:
            yield f"started by run {plain(body.started_by)}"
        if body.parent is not None:
            above = root_of(body.parent)
            root = f", below run {above}" if above != body.parent.run_id else ""
            yield f"works for step {plain(body.parent.lane)} of run {body.parent.run_id}{root}"
        if body.workflow is not None:
            fork = f", continues from run {body.workflow.forked_from}" if body.workflow.forked_from else ""
            yield f"workflow {plain(str(body.workflow.definition.get('name', '')))}{fork}"
        if body.project:
            yield f"works in {plain(body.workspace)}"
        if body.untrusted:
            yield f"begins with text from {', '.join(map(plain, body.untrusted))}"
        yield ""
        yield self._head(event, "task", "bold")
        yield from self._text(body.prompt)
        if body.workflow is not None and body.workflow.inputs:
            yield from self._values(body.workflow.inputs)

    def _dated(self, event: Event) -> Iterator[str]:
        if (today := day(event.ts)) != self._day:
            yield ("\n" if self._day else "") + self._paint(today, "dim")
            self._day = today

    def _shown(self, event: Event, body: Body) -> Iterator[str]:
        match body:
            case PackStarted():
                yield from self._started(event, body)
            case ModelAnswered():
                yield from self._answered(event, body)
            case ToolCalled():
                yield from self._called(event, body)
            case ToolReturned():
                yield from self._returned(event, body)
            case ToolErred():
                yield from self._erred(event, body)
            case ApprovalRequested():
                yield from self._asked(event, body)
            case ApprovalDecided():
                yield from self._decided(event, body)
            case StepStarted() | StepWaited() | StepRetried() | StepFinished() | ChildFinished() | SignalReceived():
                yield from self._step(event, body)
            case RunWaited() | RunResumed() | RunCompleted() | RunFailed() | RunCancelled() | RunInterrupted():
                yield from self._turn_of_the_run(event, body)
            case UnknownEvent() if body.problem:
                yield self._head(event, "unreadable", "red", f"{plain(body.kind)}: {plain(body.problem)}")
            case UnknownEvent():
                yield self._head(event, plain(body.kind), "dim")
                yield from self._values(body.payload)
            case _:
                yield from self._remark(event, body)

    def _remark(self, event: Event, body: Body) -> Iterator[str]:
        match body:
            case SpecialistsRecruited():
                self._names_lanes = self._names_lanes or body.is_task_force
                chosen = f"{', '.join(map(plain, body.specialist_ids))}, by {plain(body.routing_method)}"
                yield self._head(event, "chosen", "bold", chosen)
                yield from self._block(map(plain, body.reasons))
            case ModelFailed():
                again = "" if body.retryable else ", final"
                about = f"{plain(body.error_type)} (attempt {body.attempt}{again})"
                yield self._head(event, "model error", "red", about)
                yield from self._text(body.error_message)
            case GuidanceGiven():
                yield self._head(event, "told the model", "yellow", body.reason)
                yield from self._text(body.message)
            case ContextCompacted():
                by = "by the model" if body.by_model else "without the model"
                yield self._head(event, "summarised", "yellow", f"{body.last - body.first} messages, {by}")
                yield from self._text(body.summary)
            case ContextTruncated():
                lost = f"the server read {body.read_tokens:,} of about {body.sent_tokens:,} tokens"
                yield self._head(event, "truncated", "red", lost)
                yield from self._text(body.hint)
            case WorkspaceCompared():
                yield self._head(event, "compared", "dim", _compared(body))
            case WorkspaceSaved():
                yield self._head(event, "saved", "dim", f"{counted(body.files, 'file')}, {body.size:,} bytes")
            case CloudFallbackUsed():
                yield self._head(
                    event, "fallback", "yellow", f"{plain(body.cloud_model)} for {plain(body.local_model)}"
                )
                yield from self._text("\n".join(filter(None, (body.reason, body.error))))
            case PackFailed():
                yield self._head(event, "failed", "red", f"{plain(body.specialist_id)}: {plain(body.code)}")
                yield from self._text(body.message)
            case BudgetExhausted():
                yield self._head(event, "budget", "red", f"{body.used:g} of {body.limit:g} {body.resource} used")
            case _:
                yield self._head(event, body.kind, "dim")
                yield from self._values(asdict(body))

    def _turn_of_the_run(
        self,
        event: Event,
        body: RunWaited | RunResumed | RunCompleted | RunFailed | RunCancelled | RunInterrupted,
    ) -> Iterator[str]:
        match body:
            case RunWaited():
                until = f", until {moment(body.until)}" if body.until is not None else ""
                yield self._head(event, "waits", "yellow", f"{plain(body.reason)}{until}")
                yield from self._block(map(plain, body.approvals))
            case RunResumed():
                yield self._head(event, "resumed", "bold", f"by a {body.by}")
            case RunCompleted():
                yield self._head(event, "completed", "green", self._totals(body.payload))
                if body.effects is not None and body.effects.open:
                    self.has_warned = True
                    yield from (INDENT + line for line in warning_lines(body.effects, body.outcome, sys.stdout))
                yield from self._values(_told_once(body.payload))
            case RunFailed():
                yield self._head(event, "failed", "red", f"{plain(body.code)} · {self._totals(body.payload)}")
                yield from self._text("\n".join(filter(None, (body.message, body.hint))))
                yield from self._values(_told_once(body.payload))
            case RunCancelled():
                yield self._head(event, "cancelled", "red", f"by {plain(body.by)} · {self._totals()}")
                yield from self._text(body.reason)
            case RunInterrupted():
                yield self._head(event, "interrupted", "yellow", plain(body.reason))

    def _decided(self, event: Event, body: ApprovalDecided) -> Iterator[str]:
        reach = " for the run" if body.reach is Reach.RUN else ""
        via = f" via {plain(body.via)}" if body.via else ""
        said = f"{body.decision.value}{reach} by {plain(body.by)}{via}  {plain(body.approval_id)}"
        yield self._head(event, "answered", "yellow", said)
        yield from self._text(body.reason)
        yield from self._values(body.args or {})

    def _started(self, event: Event, body: PackStarted) -> Iterator[str]:
        model = body.model
        where = "" if model.is_ours else f" at {plain(model.base_url)}"
        why = f" ({plain(body.model_reason)})" if body.model_reason not in ("", "configured") else ""
        yield self._head(event, plain(body.specialist_id), "bold", f"{plain(model.model)}{where}{why}")
        yield from self._prompt("system prompt", body.system_prompt)
        yield from self._prompt("first message", body.opening)
        yield f"{INDENT}{self._paint('tools:', 'dim')} {', '.join(plain(tool.name) for tool in body.tools)}"
        if body.knowledge is not None:
            yield f"{INDENT}{self._paint('memory:', 'dim')} {plain(body.knowledge.summary)}"
        yield from self._block(f"note: {plain(notice)}" for notice in body.notices)

    def _prompt(self, name: str, text: str) -> Iterator[str]:
        if not self._folded:
            yield f"{INDENT}{name}:"
            yield from self._text(text, deeper=True)
        elif text:
            yield INDENT + self._paint(f"{name}: {len(text):,} characters, folded; {_UNFOLD}", "dim")

    def _answered(self, event: Event, body: ModelAnswered) -> Iterator[str]:
        usage = body.usage
        about = "about " if body.usage_estimated else ""
        read = f"{about}{usage.prompt_tokens:,} tokens in, {usage.cached_tokens:,} cached"
        facts = [f"{read}, {usage.completion_tokens:,} out", f"{body.duration_s:.1f} s"]
        if body.cost is not None:
            facts.append(_price(body.cost))
        if body.egress:
            facts.append(f"at {plain(body.egress)}")
        yield self._head(event, "model", "cyan", self._paint(" · ".join(facts), "dim"))
        yield from self._block(_clean(body.content.strip()))  # what was said is never folded
        yield from self._text(body.problem)

    def _called(self, event: Event, body: ToolCalled) -> Iterator[str]:
        self._take_request(event, body.call_id)
        again = f"  (attempt {body.attempt})" if body.attempt > 1 else ""
        who = f"  (agreed by {plain(body.approved_by)})" if body.approved_by else ""
        yield self._head(event, "call", "bold", f"{plain(body.tool)}{again}{who}")
        if not (self._folded and body.tool == FINISH_TASK):  # the result of the run has it, too
            yield from self._values(body.args)

    def _returned(self, event: Event, body: ToolReturned) -> Iterator[str]:
        result = dict(body.result)
        code = result.pop("exit_code", None)
        if body.repeated:
            said, style = "same call again, not run", "yellow"
        elif result.get("timed_out"):
            said, style = "timed out", "yellow"
        elif code is None:
            said, style = "ok", "green"
        else:
            said, style = f"exit {code}", "green" if code == 0 else "yellow"
        yield self._head(event, "result", style, f"{plain(body.tool)}  {said} · {body.duration_s:.1f} s")
        if body.tool == FINISH_TASK:  # what was called is the result
            return
        if body.whole and not self._folded:
            yield from self._values({"whole": body.whole})
        else:
            yield from self._values(result)

    def _erred(self, event: Event, body: ToolErred) -> Iterator[str]:
        wanted = self._take_request(event, body.call_id)
        yield self._head(event, "error", "red", f"{plain(body.tool)}  {plain(body.error_type)}")
        if wanted:  # it was refused before it was called
            yield from self._text(wanted)
        yield from self._text(body.error_message)
        yield from self._text(body.proposal)

    def _asked(self, event: Event, body: ApprovalRequested) -> Iterator[str]:
        self._take_request(event, body.call_id)
        yield self._head(event, "asks", "yellow", f"{plain(body.tool)}  {plain(body.approval_id)}")
        yield from self._text(body.reason)
        yield from self._values(body.args)
        if body.destination:
            yield f"{INDENT}to: {plain(body.destination)}"
        if body.untrusted:
            yield f"{INDENT}has read: {', '.join(map(plain, body.untrusted))}"

    def _step(
        self,
        event: Event,
        body: StepStarted | StepWaited | StepRetried | StepFinished | ChildFinished | SignalReceived,
    ) -> Iterator[str]:
        match body:
            case StepStarted():
                again = f"  (attempt {body.attempt})" if body.attempt > 1 else ""
                child = f"  run {body.child_run_id}" if body.child_run_id is not None else ""
                yield self._head(event, "step", "bold", f"{plain(body.action)}{child}{again}")
                yield from self._values(body.inputs)
            case StepWaited():
                yield self._head(event, "waits", "yellow", _awaited(body))
            case StepRetried():
                yield self._head(
                    event, "again", "yellow", f"in {seconds(body.delay_s)} (attempt {body.attempt} failed)"
                )
                yield from self._text(f"{body.error_type}: {body.error}")
            case StepFinished():
                style = {StepStatus.SUCCESS: "green", StepStatus.SKIPPED: "dim"}.get(body.status, "red")
                kept = f"  kept from run {body.reused_from}" if body.reused_from is not None else ""
                yield self._head(event, body.status.value, style, kept.strip())
                yield from self._text(": ".join(filter(None, (body.error_type, body.error))))
                yield from self._values(body.outputs)
            case ChildFinished():
                cost = f" · {_price(body.cost)}" if body.cost is not None else ""
                tokens = f"{body.prompt_tokens + body.completion_tokens:,} tokens{cost}"
                yield self._head(event, "run ended", "bold", f"{body.child_run_id}  {body.run_status} · {tokens}")
            case SignalReceived():
                by = f" from {plain(body.by)}" if body.by else ""
                yield self._head(event, "signal", "yellow", f"{plain(body.name)}{by}")
                yield from self._values(body.data)

    def _take_request(self, event: Event, call_id: CallId) -> str:
        return self._requested.get(event.lane, {}).pop(call_id, "")

    def _totals(self, payload: Mapping[str, Any] | None = None) -> str:
        """Return what a run took. The steps of a workflow are its own, and its time is the time that passed."""
        if payload is not None and _is_of_workflow(payload):
            number, took_s = len(payload["steps_executed"]), payload["duration_ms"] / 1000
        else:
            number, took_s = self._answers, self._busy_s
        parts = [counted(number, "step"), f"{self._tokens:,} tokens", f"{took_s:.1f} s"]
        if self._cost is not None:
            parts.append(_price(self._cost))
        return ", ".join(parts)

    def _head(self, event: Event, label: str, style: str, text: str = "") -> str:
        at = self._paint(time.strftime("%H:%M:%S", time.localtime(event.ts)), "dim")
        whose = f"{plain(event.lane)}  " if event.lane and self._names_lanes else ""
        return f"{at}  {whose}{self._paint(label, style)}  {text}".rstrip()

    def _values(self, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield named values: texts as they are, the rest as JSON."""
        for name, value in values.items():
            if value is None or value in ("", [], {}):
                continue
            text = _shown_value(value)
            label = self._paint(f"{plain(str(name))}:", "dim")
            if "\n" in text.rstrip("\n"):
                yield f"{INDENT}{label}"
                yield from self._text(text, deeper=True)
            else:
                first, *more = list(self._text(text)) or [INDENT]
                yield f"{INDENT}{label} {first.strip()}"
                yield from more

    def _text(self, text: str, *, deeper: bool = False) -> Iterator[str]:
        """Yield the lines of a text; of a long one only the beginning, where texts are folded."""
        text = text.strip("\n")
        if not text:
            return
        if not self._folded:
            yield from self._block(_clean(text), deeper=deeper)
            return
        shown = "\n".join(text[:MAX_FOLDED_CHARS].split("\n")[:MAX_FOLDED_LINES])
        yield from self._block(_clean(shown), deeper=deeper)
        if len(shown) < len(text):
            left = text.count("\n", len(shown))
            amount = f"{left:,} more lines" if left else f"{len(text) - len(shown):,} more characters"
            yield f"{INDENT}{self._paint(f'… {amount}, folded; {_UNFOLD}', 'dim')}"

    @staticmethod
    def _block(lines: Iterable[str], *, deeper: bool = False) -> Iterator[str]:
        indent = INDENT + "  " * deeper
        for line in lines:
            yield f"{indent}{line}".rstrip()

    def _paint(self, text: str, style: str) -> str:
        return paint(text, style) if self._coloured else text


def _clean(text: str) -> Iterator[str]:
    """Yield the lines of a text without control characters; tabs become blanks."""
    return (plain(line.expandtabs(8)) for line in text.splitlines())


def _shown_value(value: Any) -> str:
    if isinstance(value, _SCALARS):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(each, _SCALARS) for each in value):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False, default=str)


def _is_of_workflow(payload: Mapping[str, Any]) -> bool:
    return "steps_executed" in payload and "step_results" in payload


def _told_once(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result without what the steps of a workflow have shown already: what is left is what it declares."""
    declared: Mapping[str, Any] = payload.get("result") or {} if _is_of_workflow(payload) else payload
    return declared


def _price(cost: float) -> str:
    return f"cost {cost:.6f}".rstrip("0").rstrip(".")


def _awaited(body: StepWaited) -> str:
    limit = f", at most {seconds(body.timeout_s)}" if body.timeout_s is not None else ""
    if body.event:
        return f"for the signal {plain(body.event)}{limit}"
    if body.until is not None:
        return f"until {moment(body.until)}{limit}"
    if body.seconds is not None:
        return f"{seconds(body.seconds)}{limit}"
    return f"for approvals: {', '.join(map(plain, body.approvals))}" if body.approvals else "for its run"


def _compared(body: WorkspaceCompared) -> str:
    """Say what was different in the workspace."""
    if not body.known:
        return "nobody knows how the workspace was before"
    parts = [
        f"{what} {', '.join(map(plain, paths))}"
        for what, paths in (("created", body.created), ("modified", body.modified), ("deleted", body.deleted))
        if paths
    ]
    more = [f"and {body.more:,} more"] if body.more else []
    return "; ".join((*parts, *more)) or "nothing has changed"
