"""A run's log as a transcript: what was said, called, returned and agreed to, with times and costs."""

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final, TypeAlias

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
from agent_fabric.domain.models.events import CloudFallbackUsed, ModelReasoned
from agent_fabric.domain.plural import count_of
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

MAX_DEPTH = 3
"""Named values within values are shown as such so deep."""
MAX_FOLDED_LINES: Final = 20
MAX_FOLDED_CHARS: Final = 2_000
INDENT: Final = " " * 10
_UNFOLD: Final = "--full shows it"
_SCALARS: Final = (str, int, float, bool)
_QUIET: Final = frozenset(
    {"llm_request", "tool_call_recovered", "security_event", "task_force_parallel", "timer_fired"}
)
"""Kinds that a transcript shows only if they are asked for: other events say the same."""


Entry: TypeAlias = tuple[str, str, str, *tuple[str | Mapping[str, Any] | Iterable[str], ...]]
"""An event: its label, the style of that, a text beside it, and details: texts, named values, or lines as they are."""


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
        self._problem = ""
        """Why a model gave no answer the last time."""
        self.has_warned = False
        """It was said that not all is done."""

    def lines(self, event: Event) -> Iterator[str]:
        """Yield the lines for an event."""
        self._count(event)
        body = event.body
        if isinstance(body, RunCreated):
            yield from self._created_lines(event, body)
        elif self._every_kind or isinstance(body, UnknownEvent) or body.kind not in _QUIET:
            yield from self._date_line(event)
            yield from self._lines(event, body)

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
                self._add_cost(body.cost)
            case ModelFailed() as body:
                self._asking.pop(event.lane, None)
                self._busy_s += body.duration_s
            case ContextCompacted() as body:
                self._tokens += body.usage.prompt_tokens + body.usage.completion_tokens
                self._add_cost(body.cost)
                self._busy_s += body.duration_s
            case ToolReturned() | ToolErred() as body:
                self._busy_s += body.duration_s
            case RunCompleted() | RunFailed() | RunCancelled() | RunInterrupted() | RunResumed():
                self._asking.clear()
            case _:
                pass

    def _created_lines(self, event: Event, body: RunCreated) -> Iterator[str]:
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

    def _date_line(self, event: Event) -> Iterator[str]:
        if (today := day(event.ts)) != self._day:
            yield ("\n" if self._day else "") + self._paint(today, "dim")
            self._day = today

    def _lines(self, event: Event, body: Body) -> Iterator[str]:
        label, style, text, *details = self._entry(event, body)
        yield self._head(event, label, style, text)
        for each in details:
            if isinstance(each, str):
                yield from self._text(each)
            else:
                yield from self._values(each) if isinstance(each, Mapping) else each

    def _entry(self, event: Event, body: Body) -> Entry:
        match body:
            case PackStarted():
                return self._start_entry(body)
            case ModelAnswered():
                return self._answer_entry(body)
            case ToolCalled() | ToolReturned() | ToolErred() | ApprovalRequested() | ApprovalDecided():
                return self._call_entry(event, body)
            case StepStarted() | StepWaited() | StepRetried() | StepFinished() | ChildFinished() | SignalReceived():
                return self._step(body)
            case RunWaited() | RunResumed() | RunCompleted() | RunFailed() | RunCancelled() | RunInterrupted():
                return self._turn_of_the_run(body)
            case UnknownEvent() if body.problem:
                return "unreadable", "red", f"{plain(body.kind)}: {plain(body.problem)}"
            case UnknownEvent():
                return plain(body.kind), "dim", "", body.payload
            case _:
                return self._remark(body)

    def _remark(self, body: Body) -> Entry:
        match body:
            case SpecialistsRecruited():
                self._names_lanes = self._names_lanes or body.is_task_force
                chosen = f"{', '.join(map(plain, body.specialist_ids))}, by {plain(body.routing_method)}"
                return "chosen", "bold", chosen, self._block(map(plain, body.reasons))
            case ModelFailed():
                again = "" if body.retryable else ", final"
                about = f"{plain(body.error_type)} (attempt {body.attempt}{again})"
                is_new, self._problem = body.error_message != self._problem, body.error_message
                return "model error", "red", about if is_new else f"{about}, as before", body.error_message * is_new
            case GuidanceGiven():
                return "told the model", "yellow", body.reason, body.message
            case ContextCompacted():
                by = "by the model" if body.by_model else "without the model"
                return "summarised", "yellow", f"{body.last - body.first} messages, {by}", body.summary
            case ContextTruncated():
                lost = f"the server read {body.read_tokens:,} of about {body.sent_tokens:,} tokens"
                return "truncated", "red", lost, body.hint
            case WorkspaceCompared():
                return "compared", "dim", _difference(body)
            case WorkspaceSaved():
                return "saved", "dim", f"{count_of(body.files, 'file')}, {body.size:,} bytes"
            case ModelReasoned():
                return "thought", "dim", f"{body.chars:,} characters", body.text
            case CloudFallbackUsed():
                why = "\n".join(filter(None, (body.reason, body.error)))
                return "fallback", "yellow", f"{plain(body.cloud_model)} for {plain(body.local_model)}", why
            case PackFailed():
                return "failed", "red", f"{plain(body.specialist_id)}: {plain(body.code)}", body.message
            case BudgetExhausted():
                return "budget", "red", f"{body.used:g} of {body.limit:g} {body.resource} used"
            case _:
                return body.kind, "dim", "", asdict(body)

    def _turn_of_the_run(
        self, body: RunWaited | RunResumed | RunCompleted | RunFailed | RunCancelled | RunInterrupted
    ) -> Entry:
        match body:
            case RunWaited():
                until = f", until {moment(body.until)}" if body.until is not None else ""
                return "waits", "yellow", f"{plain(body.reason)}{until}", self._block(map(plain, body.approvals))
            case RunResumed():
                return "resumed", "bold", f"by a {body.by}"
            case RunCompleted():
                warnings: Iterable[str] = ()
                if body.effects is not None and body.effects.open:
                    self.has_warned = True
                    warnings = (INDENT + line for line in warning_lines(body.effects, body.outcome, sys.stdout))
                return "completed", "green", self._totals(body.payload), warnings, _declared_result(body.payload)
            case RunFailed():
                why = "\n".join(filter(None, (body.message, body.hint)))
                how = f"{plain(body.code)} · {self._totals(body.payload)}"
                return "failed", "red", how, why, _declared_result(body.payload)
            case RunCancelled():
                return "cancelled", "red", f"by {plain(body.by)} · {self._totals()}", body.reason
            case RunInterrupted():
                return "interrupted", "yellow", plain(body.reason)

    def _start_entry(self, body: PackStarted) -> Entry:
        model = body.model
        where = "" if model.is_ours else f" at {plain(model.base_url)}"
        why = f" ({plain(body.model_reason)})" if body.model_reason not in ("", "configured") else ""
        facts = [f"{INDENT}{self._paint('tools:', 'dim')} {', '.join(plain(tool.name) for tool in body.tools)}"]
        if body.knowledge is not None:
            facts.append(f"{INDENT}{self._paint('memory:', 'dim')} {plain(body.knowledge.summary)}")
        prompts = (self._prompt("system prompt", body.system_prompt), self._prompt("first message", body.opening))
        notes = self._block(f"note: {plain(notice)}" for notice in body.notices)
        return plain(body.specialist_id), "bold", f"{plain(model.model)}{where}{why}", *prompts, facts, notes

    def _prompt(self, name: str, text: str) -> Iterator[str]:
        if not self._folded:
            yield f"{INDENT}{name}:"
            yield from self._text(text, deeper=True)
        elif text:
            yield INDENT + self._paint(f"{name}: {len(text):,} characters, folded; {_UNFOLD}", "dim")

    def _answer_entry(self, body: ModelAnswered) -> Entry:
        usage = body.usage
        about = "about " if body.usage_estimated else ""
        read = f"{about}{usage.prompt_tokens:,} tokens in, {usage.cached_tokens:,} cached"
        facts = [f"{read}, {usage.completion_tokens:,} out", f"{body.duration_s:.1f} s"]
        if body.cost is not None:
            facts.append(_price(body.cost))
        if body.egress:
            facts.append(f"at {plain(body.egress)}")
        content = self._block(_clean(body.content.strip()))  # what was said is never folded
        return "model", "cyan", self._paint(" · ".join(facts), "dim"), content, body.problem

    def _call_entry(
        self, event: Event, body: ToolCalled | ToolReturned | ToolErred | ApprovalRequested | ApprovalDecided
    ) -> Entry:
        match body:
            case ToolCalled():
                self._take_request(event, body.call_id)
                who = f"  (agreed by {plain(body.approved_by)})" if body.approved_by else ""
                told_later = self._folded and body.tool == FINISH_TASK  # the result of the run has it, too
                text = f"{plain(body.tool)}{_again(body.attempt)}{who}"
                return "call", "bold", text, {} if told_later else body.args
            case ToolReturned():
                return self._return_entry(body)
            case ToolErred():
                wanted = self._take_request(event, body.call_id)  # something, if it was refused before it was called
                text = f"{plain(body.tool)}  {plain(body.error_type)}"
                return "error", "red", text, wanted, body.error_message, body.proposal
            case ApprovalRequested():
                self._take_request(event, body.call_id)
                facts = [f"{INDENT}to: {plain(body.destination)}"] if body.destination else []
                facts += [f"{INDENT}has read: {', '.join(map(plain, body.untrusted))}"] if body.untrusted else []
                text = f"{plain(body.tool)}  {plain(body.approval_id)}"
                return "asks", "yellow", text, body.reason, body.args, facts
            case ApprovalDecided():
                reach = " for the run" if body.reach is Reach.RUN else ""
                via = f" via {plain(body.via)}" if body.via else ""
                text = f"{body.decision.value}{reach} by {plain(body.by)}{via}  {plain(body.approval_id)}"
                return "answered", "yellow", text, body.reason, body.args or {}

    def _return_entry(self, body: ToolReturned) -> Entry:
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
        if body.tool == FINISH_TASK:  # what was called is the result
            result = {}
        elif body.whole and not self._folded:
            result = {"whole": body.whole}
        return "result", style, f"{plain(body.tool)}  {said} · {body.duration_s:.1f} s", result

    def _step(
        self, body: StepStarted | StepWaited | StepRetried | StepFinished | ChildFinished | SignalReceived
    ) -> Entry:
        match body:
            case StepStarted():
                child = f"  run {body.child_run_id}" if body.child_run_id is not None else ""
                return "step", "bold", f"{plain(body.action)}{child}{_again(body.attempt)}", body.inputs
            case StepWaited():
                return "waits", "yellow", _wait_text(body)
            case StepRetried():
                text = f"in {seconds(body.delay_s)} (attempt {body.attempt} failed)"
                return "again", "yellow", text, f"{body.error_type}: {body.error}"
            case StepFinished():
                style = {StepStatus.SUCCESS: "green", StepStatus.SKIPPED: "dim"}.get(body.status, "red")
                kept = f"kept from run {body.reused_from}" if body.reused_from is not None else ""
                error = ": ".join(filter(None, (body.error_type, body.error)))
                return body.status.value, style, kept, error, body.outputs
            case ChildFinished():
                cost = f" · {_price(body.cost)}" if body.cost is not None else ""
                tokens = f"{body.prompt_tokens + body.completion_tokens:,} tokens{cost}"
                return "run ended", "bold", f"{body.child_run_id}  {body.run_status} · {tokens}"
            case SignalReceived():
                by = f" from {plain(body.by)}" if body.by else ""
                return "signal", "yellow", f"{plain(body.name)}{by}", body.data

    def _add_cost(self, cost: float | None) -> None:
        if cost is not None:
            self._cost = (self._cost or 0.0) + cost

    def _take_request(self, event: Event, call_id: CallId) -> str:
        return self._requested.get(event.lane, {}).pop(call_id, "")

    def _totals(self, payload: Mapping[str, Any] | None = None) -> str:
        """Return what a run took. The steps of a workflow are its own, and its time is the time that passed."""
        if payload is not None and _is_of_workflow(payload):
            number, took_s = len(payload["steps_executed"]), payload["duration_ms"] / 1000
        else:
            number, took_s = self._answers, self._busy_s
        parts = [count_of(number, "step"), f"{self._tokens:,} tokens", f"{took_s:.1f} s"]
        if self._cost is not None:
            parts.append(_price(self._cost))
        return ", ".join(parts)

    def _head(self, event: Event, label: str, style: str, text: str = "") -> str:
        at = self._paint(time.strftime("%H:%M:%S", time.localtime(event.ts)), "dim")
        whose = f"{plain(event.lane)}  " if event.lane and self._names_lanes else ""
        return f"{at}  {whose}{self._paint(label, style)}  {text}".rstrip()

    def _values(self, values: Mapping[str, Any], depth: int = 1) -> Iterator[str]:
        """Yield named values: texts as they are, named values in them below, what lies deeper as JSON."""
        for name, value in values.items():
            if value is None or value in ("", [], {}):
                continue
            if isinstance(value, Mapping) and depth < MAX_DEPTH:
                yield f"{INDENT}{self._paint(f'{plain(str(name))}:', 'dim')}"
                yield from (f"  {line}" for line in self._values(value, depth + 1))
                continue
            text = _value_text(value)
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


def _again(attempt: int) -> str:
    return f"  (attempt {attempt})" if attempt > 1 else ""


def _value_text(value: Any) -> str:
    if isinstance(value, _SCALARS):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(each, _SCALARS) for each in value):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False, default=str)


def _is_of_workflow(payload: Mapping[str, Any]) -> bool:
    return "steps_executed" in payload and "step_results" in payload


def _declared_result(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result without what the steps of a workflow have shown already: what is left is what it declares."""
    declared: Mapping[str, Any] = payload.get("result") or {} if _is_of_workflow(payload) else payload
    return declared


def _price(cost: float) -> str:
    return f"cost {cost:.6f}".rstrip("0").rstrip(".")


def _wait_text(body: StepWaited) -> str:
    limit = f", at most {seconds(body.timeout_s)}" if body.timeout_s is not None else ""
    if body.event:
        return f"for the signal {plain(body.event)}{limit}"
    if body.until is not None:
        return f"until {moment(body.until)}{limit}"
    if body.seconds is not None:
        return f"{seconds(body.seconds)}{limit}"
    return f"for approvals: {', '.join(map(plain, body.approvals))}" if body.approvals else "for its run"


def _difference(body: WorkspaceCompared) -> str:
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
