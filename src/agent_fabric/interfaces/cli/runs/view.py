"""Shows a run as it happens: one line a step, then what came of it."""

import os
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from typing import TextIO

from agent_fabric.application.ports.llm import ProgressText
from agent_fabric.domain.approvals.answers import Question
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.events import (
    ContextCompacted,
    ContextTruncated,
    Event,
    GuidanceGiven,
    ModelAnswered,
    ModelCalled,
    ModelFailed,
    PackFailed,
    PackStarted,
    RunCreated,
    RunResumed,
    SecurityViolated,
    SpecialistsRecruited,
    ToolCalled,
    ToolErred,
    ToolReturned,
    WorkspaceSaved,
)
from agent_fabric.domain.evidence.citations import UNFETCHED
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.evidence.proofs import UNPROVEN, UNVERIFIED
from agent_fabric.domain.ids import CallId, LaneId, RunId
from agent_fabric.domain.models.events import CloudFallbackUsed, ModelReasoned, ToolCallRecovered
from agent_fabric.domain.packs.contents import CHANGED, CHECKED
from agent_fabric.domain.packs.recruitment import RoutingMethod
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.policy.profiles import OPEN_BANNER, Profile
from agent_fabric.domain.runs.finish import COLLISIONS, FAILED, NOT_YET, PROPOSED, SPECIALISTS
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.domain.tools.specs import FINISH_TASK
from agent_fabric.domain.workflows.events import (
    ChildFinished,
    SignalReceived,
    StepFinished,
    StepRetried,
    StepStarted,
    StepWaited,
    TimerFired,
)
from agent_fabric.interfaces.cli.approvals.approval_card import going_on, how_to_answer, step_asking
from agent_fabric.interfaces.cli.notices import progress_line
from agent_fabric.interfaces.cli.output import (
    capable,
    colour,
    fit_width,
    json_text,
    laid_out,
    one_line,
    plain,
    plain_lines,
    shorten,
    terminal_columns,
)
from agent_fabric.interfaces.cli.runs.result_lines import (
    changed_lines,
    effect_texts,
    evidence_lines,
    unfetched_lines,
    warning_lines,
)
from agent_fabric.interfaces.cli.runs.step_lines import StepLines, call_remarks, seconds

_WIDTH = 100
_UNDER = "       "
"""Stands before the further parts of a line that the terminal is too narrow for."""
_MAX_PRINTED = 4_000
"""Characters of what a tool printed that --verbose shows at a terminal."""
_INSIDE = "    "
"""Stands before lines about a run that works for a step of another one."""
_NOTICE_EVERY_S = 10.0
"""How often a stream that is no terminal, such as a file, is told what keeps a run waiting."""
_BOXES = {
    "A": "sandbox A: a box of its own, no network",
    "A+": "sandbox A+: a container, no network",
    "B": "sandbox B: kept in by the kernel, no network",
    "C": "sandbox C: commands run with your rights",
}
"""What a level of the sandbox means, said aloud."""


class LiveView:
    """EventSink that prints to a stream."""

    def __init__(self, stream: TextIO, *, verbose: bool = False, explain_routing: bool = False) -> None:
        self._stream = stream
        self._verbose = verbose
        self._explain_routing = explain_routing
        self._forces: set[RunId] = set()
        """Runs in which several specialists are at work, so that each line says whose it is."""
        self._steps = StepLines(stream)
        self._prefixes: dict[RunId, str] = {}
        """What lines about runs begin with that work for a step of another one."""
        self._prefix = ""
        self._terminal = capable(stream)
        self._passing = False
        """The current line is only a sign of life and will be overwritten."""
        self._written = 0
        self._told_at = 0.0
        self._noticed_at = -_NOTICE_EVERY_S
        self._noticed = ""
        self._failure: tuple[str, LaneId | None, str] | None = None
        """The last thing that happened, if it was that a model failed: where, and how."""
        self._attempts = 0
        self._calls: dict[tuple[RunId, CallId], ToolCalled] = {}
        """Tool calls under way."""
        self.wants_deltas = self._terminal

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        over = {event.lane for event in events if isinstance(event.body, StepFinished)}
        self._prefix = self._prefixes.get(run_id, "")
        try:
            for event in events:
                if not isinstance(event.body, ModelCalled | ModelFailed):
                    self._tell_attempts()
                self._show(run_id, event, over)
        except OSError:
            self._leave()
        finally:
            self._prefix = ""

    def finish(self) -> None:
        """Take back the sign of life, if there is one."""
        try:
            self._clear()
            self._stream.flush()
        except OSError:
            self._leave()

    def _leave(self) -> None:
        """The terminal is gone: the run continues without it."""
        self._stream = open(os.devnull, "w")  # noqa: PTH123, SIM115 - for the rest of the process

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:  # noqa: ARG002 - as every sink
        self._written += len(text)
        now = time.monotonic()
        if now - self._told_at > 0.2:
            self._told_at = now
            try:
                self._pass(f"     the model is writing … {self._written} characters")
            except OSError:
                self._leave()

    def notice(self, run_id: RunId, text: str) -> None:  # noqa: ARG002 - as every sink
        """Show what happens beside the run. On a terminal, progress is overwritten, and everything else stays."""
        try:
            if self._terminal:
                if isinstance(text, ProgressText):
                    self._pass(f"     {progress_line(plain(text), self._room - len(self._prefix) - 5)}")
                elif text != self._noticed:
                    self._noticed = text
                    self._line(f"     {plain(text)}")
                return
            now = time.monotonic()
            if now - self._noticed_at > _NOTICE_EVERY_S:
                self._noticed_at = now
                self._line(f"     {plain(text)}")
        except OSError:
            self._leave()

    def _show(self, run_id: RunId, event: Event, over: Collection[LaneId | None]) -> None:
        number = event.step.removeprefix("step_")
        label = f"{int(number) + 1:>3}" if number.isdigit() else "   "
        if run_id in self._forces and event.lane is not None:
            label = f"{label}  {event.lane}"
        match event.body:
            case RunCreated() as body:
                self._show_created(run_id, body)
                if body.policy_profile == Profile.OPEN and run_id not in self._prefixes:
                    self._line(colour(OPEN_BANNER, "red", self._stream))
            case RunResumed():
                if run_id not in self._prefixes:
                    self._line(colour(f"run {run_id}", "bold", self._stream))
            case (
                StepStarted()
                | StepFinished()
                | StepRetried()
                | StepWaited()
                | SignalReceived()
                | TimerFired()
                | ChildFinished()
            ):
                self._show_step(run_id, event, over)
            case SpecialistsRecruited() as body:
                self._show_choice(run_id, body)
            case PackFailed() as body:
                self._remark(label, "failed:", one_line(body.message), style="red")
            case PackStarted() as body:
                for line in _start_lines(body, self._stream):
                    self._line(line)
            case ToolCalled() | ToolReturned() | ToolErred():
                self._show_call(run_id, label, event)
            case ApprovalRequested() | ApprovalDecided() as body:
                self._line(f"{label}  {_approval(body, self._stream)}")
            case GuidanceGiven() as body:
                self._remark(label, "told the model:", fit_width(body.message, _WIDTH, self._stream))
            case WorkspaceCompared() | WorkspaceSaved():
                pass  # the result lists what has changed
            case ContextCompacted() as body:
                self._line(f"{label}  shortened the conversation by {body.last - body.first - 1} messages")
            case _:
                self._show_model(label, event)

    def _show_created(self, run_id: RunId, body: RunCreated) -> None:
        """Show which run it is and in which box; the box on a line of its own where both do not fit on one."""
        about = [each for each in (self._steps.workflow_line(run_id, body),) if each]
        about += [f"continues run {body.continues}"] if body.continues else []
        about += [f"machine {plain(body.node)}"] if body.node else []
        box = _BOXES.get(body.sandbox, f"sandbox {body.sandbox}")
        run = f"run {run_id}"
        width = len(self._prefix + " · ".join((run, *about, box)))
        head = " · ".join((colour(run, "bold", self._stream), *about))
        if self._stream.isatty() and width > terminal_columns():
            self._line(head)
            self._line(f"     {box}")
        else:
            self._line(f"{head} · {box}")

    def _show_step(self, run_id: RunId, event: Event, over: Collection[LaneId | None]) -> None:
        body = event.body
        if isinstance(body, StepStarted) and body.child_run_id is not None:
            inside = self._prefixes.get(run_id, "").count(_INSIDE) + 1
            self._prefixes[body.child_run_id] = f"{_INSIDE * inside}{body.child_run_id[:8]}  "
        line = self._steps.line(run_id, event, over=over)
        if line is not None:
            self._line(line)
        elif self._verbose and not isinstance(body, StepStarted):
            self._line(f"     {body.kind} {plain(event.lane or '')}".rstrip())

    def _show_call(self, run_id: RunId, label: str, event: Event) -> None:
        """Show a tool call; of a step's one only what it printed, and only if that is wanted: the step has a line."""
        body, is_step = event.body, self._steps.is_step(run_id, event.lane)
        match body:
            case ToolCalled():
                if not is_step and (line := self._steps.gone_on_with(run_id, event, body)):
                    self._line(line)
                if body.tool != FINISH_TASK:
                    self._pass(f"{label}  {_call(body, self._stream)} …")
                    self._calls[run_id, body.call_id] = body
            case ToolReturned():
                if body.tool == FINISH_TASK:
                    return
                what = self._what(run_id, body)
                if not is_step:
                    self._line(f"{label}  {what}  {_outcome(body, self._stream)}")
                    if "ran" in body.result and body.result.get("note"):  # of a call that ran outside the box
                        self._remark("   ", "note:", plain(str(body.result["note"])))
                if self._verbose and (text := _text(body, self._stream)):
                    self._print(colour(plain_lines(text), "dim", self._stream))
                elif not is_step:
                    for remark in call_remarks(body, _WIDTH, self._stream):
                        self._line(colour(f"{_UNDER}{remark}", "dim", self._stream))
            case ToolErred():
                if body.tool == FINISH_TASK:
                    why = one_line(body.error_message.removeprefix(NOT_YET).strip())
                    self._remark(label, "result sent back:", why)
                    return
                what = self._what(run_id, body)
                if not is_step:
                    text = one_line(f"{body.error_type}: {body.error_message}")
                    self._line(f"{label}  {what}  {colour(text, 'yellow', self._stream)}")
            case _:
                pass

    def _show_model(self, label: str, event: Event) -> None:
        match event.body:
            case ModelCalled() as body:
                self._written = 0
                wait = f" in {body.delay_s:g} s" if body.delay_s else ""
                self._pass(f"{label}  asking {plain(body.model)}{wait} …")
            case ModelAnswered() as body:
                if self._verbose:
                    self._line(colour(f"{label}  {_usage(body)}", "dim", self._stream))
                    if body.content.strip():
                        self._print(colour(plain_lines(body.content), "dim", self._stream))
            case ModelReasoned() as body:
                if self._verbose:
                    self._print(colour(plain_lines(f"thought: {body.text}"), "dim", self._stream))
            case ModelFailed() as body:
                self._show_failure(label, event.lane, body)
            case ToolCallRecovered() as body:
                self._remark(label, "read from its text:", ", ".join(body.tools))
            case CloudFallbackUsed() as body:
                self._remark(label, "cloud:", one_line(_fallback(body)))
            case ContextTruncated() as body:
                lost = f"the server read only {body.read_tokens} of about {body.sent_tokens} tokens"
                self._remark(label, "truncated:", lost)
                self._line(f"       {body.hint}")
            case SecurityViolated():
                pass  # the tool_error beside it has been shown
            case _:
                if self._verbose:
                    self._line(f"{label}  {event.body.kind}")

    def _what(self, run_id: RunId, body: ToolReturned | ToolErred) -> str:
        called = self._calls.pop((run_id, body.call_id), None)
        return plain(body.tool) if called is None else _call(called, self._stream)

    def _show_choice(self, run_id: RunId, body: SpecialistsRecruited) -> None:
        if body.is_task_force:
            self._forces.add(run_id)
            self._line(f"     task force: {', '.join(body.specialist_ids)}")
        if not self._explain_routing:
            return
        how = "for the project folder" if body.routing_method == RoutingMethod.PROJECT else f"by {body.routing_method}"
        why = f", because {plain(body.reasons[0])}" if body.reasons else ""
        self._line(f"     chosen {how}: {', '.join(body.specialist_ids)}{why}")

    def _show_failure(self, label: str, lane: LaneId | None, body: ModelFailed) -> None:
        """Show why a model gave no answer; what is the same as before is only counted."""
        failure = (self._prefix, lane, body.error_message)
        if self._failure != failure:
            self._tell_attempts()
            self._failure, self._attempts = failure, 1
            self._remark(label, "model", one_line(body.error_message))
            return
        self._attempts += 1
        if self._terminal:
            self._pass(f"     the same, {self._attempts} times")

    def _tell_attempts(self) -> None:
        """Say how often a model has failed in the same way, once something else happens."""
        if self._attempts > 1:
            self._line(f"     the same, {self._attempts} times")
        self._failure, self._attempts = None, 0

    def _remark(self, label: str, word: str, text: str, *, style: str = "yellow") -> None:
        self._line(f"{label}  {colour(word, style, self._stream)} {text}")

    def _line(self, text: str) -> None:
        """Print a line whole, laid out for the width of the terminal."""
        self._print(text, under=_UNDER)

    def _print(self, text: str, *, under: str = "") -> None:
        """Print text as it is; with `under`, one line that is broken between words and continued below that."""
        self._clear()
        if self._prefix:
            text = self._prefix + text.replace("\n", f"\n{self._prefix}")
        if under:
            text = laid_out(text, self._stream, indent=self._prefix + under)
        self._stream.write(text + "\n")
        self._stream.flush()

    @property
    def _room(self) -> int:
        return min(_WIDTH, terminal_columns())

    def _pass(self, text: str) -> None:
        if self._terminal:
            self._clear()
            room = self._room  # what is too long for one line would not be overwritten
            self._stream.write(shorten(text, room) if not text.startswith(" ") else (self._prefix + text)[:room])
            self._stream.flush()
            self._passing = True

    def _clear(self) -> None:
        if self._passing:
            self._stream.write("\r\x1b[2K")
            self._passing = False


_SHOWN_OTHERWISE = frozenset(
    {
        *("summary", "artifacts", "deliverables", "next_steps", "notes", "citations", "limitations"),
        *(CHANGED, CHECKED, UNPROVEN, UNVERIFIED, UNFETCHED, PROPOSED, SPECIALISTS, FAILED, COLLISIONS),
    }
)
"""What of a result has a place of its own, or is too long for a terminal; the rest is what an agent declares."""


_STATUS_STYLES = {RunStatus.COMPLETED: "green", RunStatus.FAILED: "red", RunStatus.CANCELLED: "red"}


def _output(name: str, value: object) -> str:
    if isinstance(value, str):
        return f"{plain(name)}: {plain_lines(value)}"
    return f"{plain(name)}: {fit_width(json_text(value), 10 * _WIDTH, sys.stdout)}"


def summary(result: RunResult, in_doubt: Collection[str] = (), *, served: bool = False, who_may: str = "") -> str:
    """Say in a few lines what came of a run and what is proven.

    `in_doubt` are the questions about calls that may have happened; `served` shows whether a server drives it;
    `who_may` says who may answer, to a caller who may not.
    """
    out = sys.stdout
    tokens = result.usage.prompt_tokens + result.usage.completion_tokens
    used = f"{count_of(result.steps, 'step')}, {count_of(tokens, 'token')}, {seconds(result.duration_s)}"
    if result.cost is not None:
        used += f", cost {result.cost:.6f}".rstrip("0").rstrip(".")
    status, style = result.status.value, _STATUS_STYLES.get(result.status, "yellow")
    if result.status is RunStatus.COMPLETED and result.effects.open:
        status, style = f"completed, {result.outcome}", "red"
    lines = ["", f"{colour(status, style, out)} · {used}"]
    if result.status.settled:  # else it may still be done
        lines += warning_lines(result.effects, result.outcome, out)
    text = str(result.payload.get("summary", "")).strip()
    if text:
        lines += ["", plain_lines(text)]
    lines += changed_lines(result)
    lines += effect_texts(result.effects, out, files=False)
    for key in ("deliverables", "next_steps"):
        value = result.payload.get(key)
        if isinstance(value, list) and value:
            lines.append(f"{key.replace('_', ' ')}: {', '.join(plain(str(item)) for item in value)}")
    lines += [_output(key, value) for key, value in result.payload.items() if key not in _SHOWN_OTHERWISE]
    if result.status is RunStatus.COMPLETED:
        lines += evidence_lines(result, out)
    lines += unfetched_lines(result, out)
    lines += [
        f"{colour('made by several:', 'yellow', out)} {plain(str(each['file']))} ({', '.join(each['specialists'])})"
        for each in result.payload.get(COLLISIONS, ())
    ]
    lines += [f"needs a person: {plain(str(item))}" for item in result.payload.get(PROPOSED, ())]
    if result.egress:
        lines.append(f"models asked on other machines: {', '.join(map(plain, result.egress))}")
    if result.error is not None:
        lines.append(f"{colour('error:', 'red', out)} {plain_lines(result.error.message)}")
        if result.error.hint:
            what = "reason" if result.status is RunStatus.CANCELLED else "hint"
            lines.append(f"  {what}: {plain_lines(result.error.hint)}")
    lines += [
        how_to_answer(approval, in_doubt=approval in in_doubt, who_may=who_may) for approval in result.waiting_for
    ]
    if result.status in (RunStatus.INTERRUPTED, RunStatus.RUNNING, RunStatus.WAITING):
        lines.append(going_on(result.run_id, result.status, served=served))
    lines.append(f"files: fabric files {result.run_id}" if served else f"files: {result.workspace}")
    lines.append(f"log:   fabric logs show {result.run_id}")
    return "\n".join(lines) + "\n"


def _start_lines(body: PackStarted, stream: TextIO) -> Iterator[str]:
    """Say who works with which model, and what a person should know about the tools."""
    yield f"     {body.specialist_id} · {plain(_model(body))}"
    if body.knowledge is not None:
        yield f"     memory: {fit_width(body.knowledge.summary, _WIDTH, stream)}"
    for sentence in body.notices:
        yield f"     {colour('note:', 'yellow', stream)} {one_line(sentence)}"


def _model(body: PackStarted) -> str:
    """Say which model was taken, where it is, and why."""
    model = body.model
    where = "" if model.is_ours else f" at {model.base_url}"
    why = f" ({body.model_reason})" if body.model_reason not in ("", "configured") else ""
    return f"{model.model}{where}{why}"


def _usage(body: ModelAnswered) -> str:
    """Say what an answer took, and how much of its prompt the server still knew."""
    usage = body.usage
    new = usage.prompt_tokens - usage.cached_tokens
    return (
        f"read {new} new and {usage.cached_tokens} known tokens, wrote {usage.completion_tokens} "
        f"in {body.duration_s:.1f} s ({body.tool_dialect})"
    )


def _approval(body: ApprovalRequested | ApprovalDecided, stream: TextIO) -> str:
    if isinstance(body, ApprovalRequested):
        return f"{colour('asks a person:', 'yellow', stream)} {_question_text(body, stream)}"
    said = f"{body.decision.value} by {body.by}{': ' if body.reason else ''}{body.reason}"
    return f"{colour('answered:', 'yellow', stream)} {one_line(said)}"


def _question_text(body: ApprovalRequested, stream: TextIO) -> str:
    step = step_asking(body.agent, body.call_id)
    whose = f"{step}: " if step else ""
    match body.question:
        case Question.ANSWER:
            return one_line(f"{whose}{body.reason}")
        case Question.DID_IT_HAPPEN:
            return f"{plain(whose)}it may have happened: {_call(body, stream)}"
        case Question.MAY_IT_RUN:
            return fit_width(f"{whose}{body.tool}: {body.subject}", _WIDTH, stream)


def _fallback(body: CloudFallbackUsed) -> str:
    if body.error:
        return f"{plain(body.cloud_model)} could not help {plain(body.local_model)}: {plain(body.error)}"
    return f"{plain(body.cloud_model)} answered instead of {plain(body.local_model)}: {body.reason}"


def _call(body: ToolCalled | ApprovalRequested, stream: TextIO) -> str:
    main = next((str(body.args[key]) for key in ("command", "path", "url", "query") if key in body.args), "")
    outside = "outside the box: " if body.outside is not None else ""
    return f"{outside}{plain(body.tool)} {fit_width(main, 60, stream)}".strip()


def _outcome(body: ToolReturned, stream: TextIO) -> str:
    code = body.result.get("exit_code")
    if body.repeated:
        return colour("same call again, not run", "yellow", stream)
    if why := body.result.get("not_run"):
        return f"{colour('not run:', 'yellow', stream)} {one_line(str(why))}"
    if code is None:
        return colour("ok", "green", stream)
    if body.result.get("timed_out"):
        return colour("timed out", "yellow", stream)
    return colour(f"exit {code}", "green" if code == 0 else "yellow", stream)


def _text(body: ToolReturned, stream: TextIO) -> str:
    parts = [str(body.result[key]) for key in ("stdout", "stderr", "content") if body.result.get(key)]
    text = "\n".join(parts)
    if not stream.isatty() or len(text) <= _MAX_PRINTED:
        return text
    return f"{text[:_MAX_PRINTED]}\n[{len(text) - _MAX_PRINTED:,} more characters]"
