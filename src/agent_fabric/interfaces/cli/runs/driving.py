"""What `run` and `resume` share: drive something in the foreground and present how it ended."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple

from agent_fabric.application.ports.events import EventsOnly
from agent_fabric.client.errors import ServerTimedOut, ServerUnreachable
from agent_fabric.domain.approvals.answers import Question
from agent_fabric.domain.errors import Interrupted, StoreUnavailable
from agent_fabric.domain.events import Event
from agent_fabric.domain.evidence.proofs import RESULT_UNPROVEN
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.effects import Outcome
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.interfaces.cli.approvals.ask_approval import ask_person, is_interactive
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, INTERRUPTED, NOT_PROVEN, REFUSED, WAITING
from agent_fabric.interfaces.cli.output import print_error, print_json_line
from agent_fabric.interfaces.cli.place import Place
from agent_fabric.interfaces.cli.runs.foreground import Foreground, ForegroundT, Opens
from agent_fabric.interfaces.cli.runs.result_lines import NOTHING, closing_lines
from agent_fabric.interfaces.cli.runs.view import LiveView, summary
from agent_fabric.interfaces.cli.stopping import StopSignals
from agent_fabric.wire.event_lines import line_of
from agent_fabric.wire.results import error_object, result_object

EXIT_CODES = {
    RunStatus.COMPLETED: COMPLETED,
    RunStatus.FAILED: FAILED,
    RunStatus.CANCELLED: FAILED,
    RunStatus.WAITING: WAITING,
    RunStatus.INTERRUPTED: INTERRUPTED,
    RunStatus.RUNNING: INTERRUPTED,
}


def exit_code(result: RunResult) -> int:
    """Return the exit code for how a run stands: that of its status, unless its end has one of its own."""
    if result.error is not None and result.error.code == RESULT_UNPROVEN:
        return NOT_PROVEN
    return REFUSED if result.outcome is Outcome.REFUSED else EXIT_CODES[result.status]


def drive_in_foreground(
    opens: Opens[ForegroundT],
    work: Callable[[ForegroundT], Awaitable[RunResult]],
    at: Place,
    *,
    verbose: bool,
    explain_routing: bool = False,
    tell: Callable[[RunResult, str], int] | None = None,
) -> int:
    """Drive to the end, present the result, return the exit code.

    `tell` presents the result of a completed run in its own way, given the run's folder, and returns the exit code.

    Ctrl-C and SIGTERM leave the run interrupted, ready to be resumed; one that a server drives continues there.
    """
    shown = verbose or explain_routing or not at.as_json or sys.stderr.isatty()
    view = LiveView(sys.stderr, verbose=verbose, explain_routing=explain_routing) if shown and not at.streams else None
    drive = _Drive(opens, work, view, at)
    with drive.stop:
        try:
            outcome = asyncio.run(drive.run())
        except asyncio.CancelledError:
            if at.as_json:
                stopped = Interrupted("Stopped before a run was created", hint="Nothing was done.")
                at.print(error_object(stopped), "")
            return INTERRUPTED
        except (StoreUnavailable, ServerUnreachable, ServerTimedOut) as problem:
            if drive.run_id is None or not (at.as_json or drive.stop.was_obeyed):
                raise
            if at.as_json:
                at.print(error_object(problem, run_id=drive.run_id), "")
            else:
                print_error(problem, as_json=False)
            return INTERRUPTED if drive.stop.was_obeyed else FAILED
        finally:
            if view is not None:
                view.finish()
        if tell is not None and outcome.result.status is RunStatus.COMPLETED:
            return tell(outcome.result, outcome.run_dir)
        _present(outcome, at)
        return exit_code(outcome.result)


class EventLines(EventsOnly):
    """EventSink that prints each event as a line of JSON, as `fabric logs show --json --full` does."""

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        try:
            for event in events:
                print_json_line(line_of(run_id, event, whole=True))
        except OSError:
            pass  # the reader has gone: the run continues without it


class _Drive(Generic[ForegroundT]):
    """One run from its start to what is told about it."""

    def __init__(
        self,
        opens: Opens[ForegroundT],
        work: Callable[[ForegroundT], Awaitable[RunResult]],
        view: LiveView | None,
        at: Place,
    ) -> None:
        self.stop = StopSignals()
        self._opens, self._work = opens, work
        self._view, self._as_json = view, at.as_json
        self._sink = EventLines() if at.streams else view
        self._foreground: ForegroundT | None = None

    @property
    def run_id(self) -> RunId | None:
        """The run, as soon as there is one."""
        return None if self._foreground is None else self._foreground.run_id

    async def run(self) -> "_Outcome":
        """Drive the run, and read what came of it."""
        async with self._opens(self._sink, self._asks()) as foreground:
            self._foreground = foreground
            task = asyncio.ensure_future(self._drive(foreground))
            self.stop.cancels(task)
            try:
                result = await task
            except asyncio.CancelledError:
                if foreground.run_id is None:
                    raise
                if self._view is not None:
                    self._view.finish()
                self.stop.was_obeyed = True
                result = await foreground.leave(foreground.run_id)
            steps = await _steps_of(foreground, result)
            asked = [] if result.status.settled else _approvals(result, steps)
            return _Outcome(
                result,
                run_dir=await foreground.run_dir(result.run_id),
                steps=steps,
                in_doubt=await _in_doubt(foreground, asked),
                served=foreground.served,
                changes="" if self._as_json else await foreground.changes(result.run_id),
                who_may=await foreground.who_may_answer() if asked else "",
            )

    def _asks(self) -> bool:
        return not self._as_json and is_interactive()

    async def _drive(self, foreground: ForegroundT) -> RunResult:
        """Drive the run, and ask the person at the terminal whenever it needs one."""
        result = await self._work(foreground)
        while result.status is RunStatus.WAITING and self._asks():
            if self._view is not None:
                self._view.finish()
            questions = _approvals(result, await _steps_of(foreground, result))
            if not questions or await foreground.who_may_answer():
                break
            if not await ask_person(questions, foreground.question, foreground.answer):
                break
            result = await foreground.go_on(result.run_id)
        return result


class _Outcome(NamedTuple):
    """How it ended."""

    result: RunResult
    run_dir: str
    steps: Mapping[str, Any] | None
    """What the steps came to, if it is a workflow."""
    in_doubt: frozenset[str]
    """Questions that it waits for about calls that may have happened."""
    served: bool
    """Whether a server drives it."""
    changes: str
    """What it changed in a project, for people."""
    who_may: str
    """Who may answer what it waits for, if the person at this terminal may not."""


async def _state(foreground: Foreground, run_id: RunId) -> RunState:
    return fold(run_id, await foreground.events(run_id))


async def _steps_of(foreground: Foreground, result: RunResult) -> Mapping[str, Any] | None:
    if result.specialist_ids:
        return None  # specialists did it, not steps
    state = await _state(foreground, result.run_id)
    if state.workflow is None:
        return None
    from agent_fabric.interfaces.views.workflows.result import workflow_object  # noqa: PLC0415 - most runs have no steps

    run_dir = await foreground.run_dir(result.run_id)
    return await workflow_object(partial(_state, foreground), state, run_dir, status=result.status)


def _approvals(result: RunResult, steps: Mapping[str, Any] | None) -> Sequence[str]:
    return result.waiting_for if steps is None else steps["_meta"]["approvals"]


async def _in_doubt(foreground: Foreground, asked: Sequence[str]) -> frozenset[str]:
    cards = await foreground.questions() if asked else ()
    in_doubt = frozenset(card.approval_id for card in cards if card.question is Question.DID_IT_HAPPEN)
    return in_doubt.intersection(asked)


def _present(outcome: _Outcome, at: Place) -> None:
    result, in_doubt, served, who_may = outcome.result, outcome.in_doubt, outcome.served, outcome.who_may
    if outcome.steps is not None:
        from agent_fabric.interfaces.cli.workflows import workflow_summary as texts  # noqa: PLC0415 - as above

        at.print(
            outcome.steps,
            texts.workflow_summary(outcome.steps, sys.stdout, in_doubt, served=served, who_may=who_may),
        )
        if at.as_json:
            lines = texts.how_to_go_on(outcome.steps, in_doubt, served=served, who_may=who_may)
            sys.stderr.writelines(f"{line}\n" for line in lines)
    else:
        text = summary(result, in_doubt, served=served, who_may=who_may)
        at.print(result_object(result, outcome.run_dir), text)
    sys.stdout.write(_changes_with_commits(outcome))
    if not at.as_json:
        sys.stdout.writelines(f"{line}\n" for line in closing_lines(result.effects, result.outcome, sys.stdout))
    sys.stdout.flush()


def _changes_with_commits(outcome: _Outcome) -> str:
    """Return what a run changed in a project; after a commit that is not nothing, though no file is different."""
    committed = outcome.result.effects.changed.commits
    return "" if committed and outcome.changes == NOTHING else outcome.changes
