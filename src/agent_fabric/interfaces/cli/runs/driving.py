"""What `run` and `resume` share: drive something in the foreground and present how it ended."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from agent_fabric.client.errors import ServerTimedOut, ServerUnreachable
from agent_fabric.domain.approvals.answers import Question
from agent_fabric.domain.errors import Interrupted, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.effects import Outcome
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.interfaces.cli.approvals.ask_approval import ask_person, is_interactive
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, INTERRUPTED, REFUSED, WAITING
from agent_fabric.interfaces.cli.output import print_error, print_json
from agent_fabric.interfaces.cli.runs.effect_texts import closing_lines
from agent_fabric.interfaces.cli.runs.foreground import NOTHING, Foreground, Job, OnCreated, Ready
from agent_fabric.interfaces.cli.runs.view import LiveView, summary
from agent_fabric.interfaces.cli.stopping import StopSignals
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
    """Return the exit code for how a run stands: that of its status, unless what it was for was refused."""
    return REFUSED if result.outcome is Outcome.REFUSED else EXIT_CODES[result.status]


def drive_in_foreground(job: Job, *, verbose: bool, as_json: bool, explain_routing: bool = False) -> int:
    """Drive to the end, present the result, return the exit code.

    Ctrl-C and SIGTERM leave the run interrupted, ready to be resumed; one that a server drives continues there.
    """
    shown = verbose or explain_routing or not as_json or sys.stderr.isatty()
    view = LiveView(sys.stderr, verbose=verbose, explain_routing=explain_routing) if shown else None

    seen: list[RunId] = []
    stop = StopSignals()

    async def go() -> _Outcome:
        async with job(view, not as_json and is_interactive()) as ready:
            fabric = ready.fabric
            task = asyncio.ensure_future(_answered(ready, seen.append, view, asks=not as_json))
            stop.cancels(task)
            try:
                result = await task
            except asyncio.CancelledError:
                if not seen:
                    raise
                if view is not None:
                    view.finish()
                stop.was_obeyed = True
                result = await fabric.leave(seen[-1])
            steps = await _steps_of(fabric, result)
            run_dir = await fabric.run_dir(result.run_id)
            asked = [] if result.status.settled else _approvals(result, steps)
            in_doubt = await _in_doubt(fabric, asked)
            who_may = await fabric.who_may_answer() if asked else ""
            changes = "" if as_json else await fabric.changes(result.run_id)
            return _Outcome(result, run_dir, steps, in_doubt, fabric.served, changes, who_may)

    with stop:
        try:
            outcome = asyncio.run(go())
        except asyncio.CancelledError:
            if as_json:
                print_json(error_object(Interrupted("Stopped before a run was created", hint="Nothing was done.")))
            return INTERRUPTED
        except (StoreUnavailable, ServerUnreachable, ServerTimedOut) as problem:
            if not seen or not (as_json or stop.was_obeyed):
                raise
            if as_json:
                print_json(error_object(problem, run_id=seen[-1]))
            else:
                print_error(problem, as_json=False)
            return INTERRUPTED if stop.was_obeyed else FAILED
        finally:
            if view is not None:
                view.finish()
        _present(outcome, as_json=as_json)
        return exit_code(outcome.result)


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


async def _state(fabric: Foreground, run_id: RunId) -> RunState:
    return fold(run_id, await fabric.events(run_id))


async def _steps_of(fabric: Foreground, result: RunResult) -> Mapping[str, Any] | None:
    if result.specialist_ids:
        return None  # specialists did it, not steps
    state = await _state(fabric, result.run_id)
    if state.workflow is None:
        return None
    from agent_fabric.interfaces.views.workflows.result import workflow_object  # noqa: PLC0415 - most runs have no steps

    run_dir = await fabric.run_dir(result.run_id)
    return await workflow_object(partial(_state, fabric), state, run_dir, status=result.status)


async def _questions(fabric: Foreground, result: RunResult) -> Sequence[str]:
    """Return the approvals that a run waits for, those of its child runs too."""
    return _approvals(result, await _steps_of(fabric, result))


def _approvals(result: RunResult, steps: Mapping[str, Any] | None) -> Sequence[str]:
    return result.waiting_for if steps is None else steps["_meta"]["approvals"]


async def _in_doubt(fabric: Foreground, asked: Sequence[str]) -> frozenset[str]:
    cards = await fabric.questions() if asked else ()
    in_doubt = frozenset(card.approval_id for card in cards if card.question is Question.DID_IT_HAPPEN)
    return in_doubt.intersection(asked)


async def _answered(ready: Ready, on_created: OnCreated, view: LiveView | None, *, asks: bool) -> RunResult:
    """Drive a run, and ask the person at the terminal whenever it needs one."""
    fabric = ready.fabric
    result = await ready.begin(on_created)
    while result.status is RunStatus.WAITING and asks and is_interactive():
        if view is not None:
            view.finish()
        questions = await _questions(fabric, result)
        if not questions or await fabric.who_may_answer():
            break
        if not await ask_person(questions, fabric.question, fabric.answer):
            break
        result = await fabric.go_on(result.run_id)
    return result


def _present(outcome: _Outcome, *, as_json: bool) -> None:
    if outcome.steps is not None:
        from agent_fabric.interfaces.cli.workflows.workflow_summary import present_workflow  # noqa: PLC0415 - as above

        present_workflow(
            outcome.steps,
            as_json=as_json,
            in_doubt=outcome.in_doubt,
            served=outcome.served,
            who_may=outcome.who_may,
        )
    elif as_json:
        print_json(result_object(outcome.result, outcome.run_dir))
    else:
        sys.stdout.write(summary(outcome.result, outcome.in_doubt, served=outcome.served, who_may=outcome.who_may))
    sys.stdout.write(_changes_with_commits(outcome))
    if not as_json:
        sys.stdout.writelines(
            f"{line}\n" for line in closing_lines(outcome.result.effects, outcome.result.outcome, sys.stdout)
        )
    sys.stdout.flush()


def _changes_with_commits(outcome: _Outcome) -> str:
    """Return what a run changed in a project; after a commit that is not nothing, though no file is different."""
    committed = outcome.result.effects.changed.commits
    return "" if committed and outcome.changes == NOTHING else outcome.changes
