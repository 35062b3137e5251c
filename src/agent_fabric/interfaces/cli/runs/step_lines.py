"""Steps of workflows as lines: what begins, what came of it, and what it waits for."""

import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TextIO

from agent_fabric.domain.events import Event, RunCreated, ToolCalled, ToolReturned
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.workflows.events import (
    SignalReceived,
    StepFinished,
    StepRetried,
    StepStarted,
    StepStatus,
    StepWaited,
)
from agent_fabric.interfaces.cli.durations import moment
from agent_fabric.interfaces.cli.output import colour, fit_width, one_line, plain

_MAX_LINES = 3
_PORCELAIN_FIELDS = 3
_UP_TO_DATE = "="


def call_remarks(body: ToolReturned, width: int, stream: TextIO) -> list[str]:
    """Return the last lines that a failed command printed, or all that an approved one said; mostly nothing."""
    result = body.result
    failed = result.get("exit_code") not in (None, 0) or bool(result.get("timed_out"))
    if body.repeated or not (failed or "ran" in result):
        return []
    said = [str(result.get(name) or "") for name in ("stderr", "stdout")]
    if "ran" in result and (pushed := list(_push_lines(said[1]))):
        return [fit_width(line, width, stream) for line in pushed]
    text = next((each for each in said if each.strip()), "")
    lines = [line for line in text.splitlines() if line.strip()]
    return [fit_width(line, width, stream) for line in lines[-_MAX_LINES:]]


def _push_lines(text: str) -> Iterator[str]:
    """Yield what became of each branch, from what `git push --porcelain` prints: flag, from:to, summary."""
    lines = text.splitlines()
    address = next((line.removeprefix("To ") for line in lines if line.startswith("To ")), "")
    for line in lines:
        fields = line.split("\t")
        if not address or len(fields) != _PORCELAIN_FIELDS:
            continue
        flag, names, summary = fields
        name = names.rpartition(":")[2].removeprefix("refs/heads/")
        nothing = "nothing to push, " if flag == _UP_TO_DATE else ""
        yield f"{name} → {address}: {nothing}{summary.strip()}"


_MARKS = {"begun": "▸", "success": "✓", "failed": "✗", "skipped": "–", "waits": "…", "reused": "="}
_PLAIN_MARKS = {"begun": ">", "success": "+", "failed": "x", "skipped": "-", "waits": ".", "reused": "="}
"""For terminals that know only ASCII."""
_STYLES = {"success": "green", "failed": "red", "waits": "yellow", "skipped": "dim", "reused": "dim"}
_ABOUT = ("command", "url", "path", "message", "event", "approval", "to")
"""Inputs that tell best what a step is going to do, the best first."""
_ACTIONS = {
    "shell": "run-command",
    "http_request": "http-request",
    "read_file": "read-file",
    "write_file": "write-file",
    "memory_search": "search-memory",
    "remember": "propose-fact",
    "send_message": "send-message",
}
"""What people call the tools of steps; the others have the names of their actions."""


class StepLines:
    """Turns the events of steps into lines for people."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        encoding = (getattr(stream, "encoding", None) or "utf-8").lower()
        self._marks = _MARKS if encoding.startswith("utf") else _PLAIN_MARKS
        self._began: dict[tuple[RunId, LaneId | None], float] = {}
        """Steps under way, and when each was first begun."""
        self._attempts: dict[tuple[RunId, str], int] = {}
        """How often steps may be tried, where the definition has been seen."""

    def workflow_line(self, run_id: RunId, body: RunCreated) -> str:
        """Learn about a run; return what there is to say about its workflow, or nothing."""
        if body.workflow is None:
            return ""
        definition = body.workflow.definition
        for step in _steps_in(definition):
            retry = step.get("retry")
            if isinstance(retry, Mapping):
                self._attempts[run_id, str(step.get("id"))] = retry.get("max_attempts", 1)
        said = f"workflow {plain(str(definition.get('name', '')))}"
        version = plain(str(definition.get("version", "")))
        again = f", continues from run {body.workflow.forked_from}" if body.workflow.forked_from else ""
        return f"{said} {version}".rstrip() + again

    def is_step(self, run_id: RunId, lane: LaneId | None) -> bool:
        """Return whether a lane is a step under way, so that its tool calls need no line of their own."""
        return (run_id, lane) in self._began

    def gone_on_with(self, run_id: RunId, event: Event, body: ToolCalled) -> str:
        """Return the line for a step that another process began and this one carries out; empty: it is no step."""
        if event.lane is None or not body.call_id.startswith(f"{event.lane}#"):
            return ""
        self._began[run_id, event.lane] = event.ts
        about = next((str(body.args[key]) for key in _ABOUT if key in body.args), "")
        action = _ACTIONS.get(body.tool, plain(body.tool))
        return self._mark("begun", f"{plain(event.lane)}  {action} {fit_width(about, 60, self._stream)}".rstrip())

    def line(self, run_id: RunId, event: Event, *, over: Collection[LaneId | None] = ()) -> str | None:
        """Return the line for an event; None: there is nothing to say.

        `over` are lanes that end in the same breath: that they began is not worth a line.
        """
        lane = event.lane
        name = plain(lane or "")
        match event.body:
            case StepStarted() as body:
                self._began.setdefault((run_id, lane), event.ts)
                return None if lane in over else self._mark("begun", f"{name}  {_what(body, self._stream)}")
            case StepFinished() as body:
                return self._finish_line(run_id, event.ts, lane, body)
            case StepRetried() as body:
                most = self._attempts.get((run_id, body.step_id))
                which = f"attempt {body.attempt} of {most}" if most else f"attempt {body.attempt}"
                soon = f"again in {seconds(body.delay_s)}" if body.delay_s else "again at once"
                return self._mark("failed", f"{name}  {_error(body)}  ({which}, {soon})")
            case StepWaited() as body:
                return self._mark("waits", f"{name}  {_waits(body)}")
            case SignalReceived() as body:
                by = f" from {plain(body.by)}" if body.by else ""
                return self._mark("waits", f"signal {plain(body.name)!r}{by}")
            case _:
                return None

    def _finish_line(self, run_id: RunId, now: float, lane: LaneId | None, body: StepFinished) -> str:
        began = self._began.pop((run_id, lane), None)
        took = "" if began is None else f"  {seconds(now - began)}"
        name = plain(lane or body.step_id)
        if body.reused_from is not None:
            return self._mark("reused", f"{name}  kept from run {body.reused_from}")
        match body.status:
            case StepStatus.SUCCESS:
                return self._mark("success", f"{name}{took}")
            case StepStatus.SKIPPED:
                why = one_line(body.error) if body.error else "its condition does not hold"
                return self._mark("skipped", f"{name}  skipped: {why}")
            case _:
                tries = f"  (attempt {body.attempt})" if body.attempt > 1 else ""
                return self._mark("failed", f"{name}  {_error(body)}{took}{tries}")

    def _mark(self, kind: str, text: str) -> str:
        mark = self._marks[kind]
        return f"{colour(mark, _STYLES[kind], self._stream) if kind in _STYLES else mark} {text}"


def seconds(duration: float) -> str:
    """Return a duration as people read it: `0.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if duration < 60:
        return f"{duration:.1f} s"
    minutes, rest = divmod(round(duration), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def _what(body: StepStarted, stream: TextIO) -> str:
    about = next((_text(body.inputs[key]) for key in _ABOUT if key in body.inputs), "")
    child = f"  run {body.child_run_id}" if body.child_run_id is not None else ""
    again = f"  (attempt {body.attempt})" if body.attempt > 1 else ""
    return f"{plain(body.action)} {fit_width(about, 60, stream)}".rstrip() + child + again


def _text(value: Any) -> str:
    return shlex.join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _waits(body: StepWaited) -> str:
    limit = f", at most {seconds(body.timeout_s)}" if body.timeout_s is not None else ""
    if body.event:
        return f"waits for the signal {plain(body.event)!r}{limit}"
    if body.until is not None:
        return f"waits until {moment(body.until)}{limit}"
    if body.seconds is not None:
        return f"waits {seconds(body.seconds)}{limit}"
    return "waits, because its run needs a person" if body.approvals else "waits for its run"


def _error(body: StepRetried | StepFinished) -> str:
    return one_line(f"{body.error_type}: {body.error}" if body.error_type else body.error)


def _steps_in(definition: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    ahead = list(definition.get("steps") or ())
    for step in ahead:  # grows as it is walked
        if isinstance(step, Mapping):
            found.append(step)
            for key in ("steps", "then", "else"):
                ahead.extend(step.get(key) or ())
    return found
