"""Workflows: see them, run them, look at their runs, tell them what has happened."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import Path, Query, Request
from pydantic import ConfigDict, Field, RootModel, StringConstraints
from starlette.responses import Response

from agent_fabric.application.ports.workflows import WorkflowFile
from agent_fabric.application.runs.dispatch_runs import Drive
from agent_fabric.application.runs.new_task import on_terms
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.bootstrap.workflows import ServedWorkflows, Workflows, fork_workflow, open_workflows, signal_workflow
from agent_fabric.domain.errors import InvalidInputs, RunNotFound
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import RunResult, RunStatus, Task
from agent_fabric.domain.tools.json_schema import too_deep
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import RequestBody
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openapi import gives
from agent_fabric.interfaces.http.routing import OptionalBody, Routes
from agent_fabric.interfaces.http.runs.runs import Flag, MaxCost, Pool, ProofRequired, RunIdPath, SeenBy
from agent_fabric.interfaces.http.runs.starting import about, resume_for, start_for, wait_for_result
from agent_fabric.interfaces.http.schemas import SAYS_SOMETHING, CancelRequest
from agent_fabric.interfaces.http.views import look_at, state_of, status_of
from agent_fabric.interfaces.views.workflows.result import settled_object, workflow_object
from agent_fabric.interfaces.views.workflows.views import CHECKED_WORKFLOWS, WORKFLOW, WORKFLOWS, checked_object
from agent_fabric.interfaces.views.workflows.views import workflow_object as definition_object
from agent_fabric.wire.runs import STATUS
from agent_fabric.wire.workflows import WORKFLOW_RESULT


class WorkflowInputs(RootModel[dict[str, Any]]):
    """The inputs that a workflow declares, by name."""

    model_config = ConfigDict(hide_input_in_errors=True, json_schema_extra={"examples": [{"since": "v1.0"}]})


class SignalRequest(RequestBody, example={"name": "deployed", "data": {"version": "1.2"}}):
    """Something that has happened."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=SAYS_SOMETHING)]
    """As the step that waits for it calls it."""
    data: dict[str, Any] = Field(default={})
    """Data for the step."""


class WorkflowResumeRequest(RequestBody, example={"from": "publish"}):
    """Where to continue."""

    from_step: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, alias="from", description="Repeat this step and all after it, in a new run."
    )
    current: bool = Field(
        default=False, description="Take the file as it is now; steps that have changed are done again, in a new run."
    )
    inputs: dict[str, Any] = Field(default={}, description="With `current`: inputs that the file has since.")


class WorkflowToCheck(
    RequestBody, example={"file": "small.yaml", "text": "name: small\nversion: 1.0.0\nsteps: [{id: a, action: wait}]"}
):
    """A text that is meant to be a workflow, or the name of one; without either, all that the server has."""

    text: Annotated[str, StringConstraints(max_length=2 * 1024 * 1024)] | None = None
    """What stands in the file; counts more than a name."""
    file: Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*[^\x00/.]\.(json|yaml|yml)$")] = (
        "workflow.yaml"
    )
    """What it is called; nothing of this name is read."""
    name: Annotated[str, StringConstraints(max_length=200)] | None = None
    """A workflow that the server has."""


BASE = "/api/v1/workflows"
ONE_RUN = f"{BASE}/runs/{{run_id}}"
NamePath = Annotated[str, Path(description="The name of a workflow.", max_length=200)]
Wait = Annotated[Flag, Query(description="Whether to wait for its result.")]
_WAITS = gives(WORKFLOW_RESULT, status=202, text="It has not ended: see `_meta.waiting_for`.")


def add_workflows(routes: Routes, runs: ServedRuns, files: ServedWorkflows) -> None:
    """Add the routes. Each calls one use case, the same that the command line calls."""
    _add_definitions(routes.below(BASE), files)
    _add_starting(routes, runs, files)
    _add_runs(routes.below(ONE_RUN), runs)
    _add_changing(routes.below(ONE_RUN), runs)


def _add_definitions(routes: Routes, files: ServedWorkflows) -> None:
    @routes.get("", Scope.RUNS_READ, "List workflows", WORKFLOWS)
    async def workflows() -> Response:
        """Files that are wrong are listed with what is wrong. A file that was changed is read again."""
        found = await files.ask(lambda workflows: workflows.files.list())
        return json_answer(WORKFLOWS.dump(found))

    @routes.post("/validate", Scope.RUNS_READ, "Check workflows", CHECKED_WORKFLOWS, fails=[404])
    async def validate(wish: OptionalBody[WorkflowToCheck]) -> Response:
        """The same as `fabric workflow validate --json`: everything that is wrong. Nothing is run or kept."""
        return json_answer(checked_object(await files.ask(partial(_check, wish=wish))))

    @routes.get("/{name}", Scope.RUNS_READ, "Show a workflow", WORKFLOW, fails=[404])
    async def workflow(name: NamePath) -> Response:
        """What it takes and gives, and its definition; of a file that is wrong, what is wrong with it."""
        return json_answer(definition_object(await files.ask(partial(_find, name=name))))


def _check(workflows: Workflows, wish: WorkflowToCheck) -> Sequence[WorkflowFile]:
    if wish.text is not None:
        return [workflows.check_text(FilePath(wish.file), wish.text)]
    return workflows.files.list() if wish.name is None else [_find(workflows, wish.name)]


def _find(workflows: Workflows, name: str) -> WorkflowFile:
    for each in workflows.files.list():
        if each.name == name:
            return each
    return workflows.files.find(name)  # which says what there is


def _add_starting(routes: Routes, runs: ServedRuns, files: ServedWorkflows) -> None:
    @routes.post(
        f"{BASE}/{{name}}/execute",
        Scope.WORKFLOWS,
        "Run a workflow",
        WORKFLOW_RESULT,
        also=_WAITS,
        fails=[404, 503, 507],
    )
    async def execute(  # noqa: PLR0913, PLR0917 - as `POST /run` takes them
        wish: OptionalBody[WorkflowInputs],
        name: NamePath,
        request: Request,
        wait: Wait = True,
        encrypt: Annotated[Flag, Query(description="Whether nothing of the run is kept in the clear.")] = False,
        model_key: Annotated[
            str | None, Query(max_length=200, description="The configured model that agents use.")
        ] = None,
        network_allowed: Annotated[Flag, Query(description="Whether tools may use the network.")] = True,
        visibility: SeenBy = None,
        pool: Pool = None,
        require_proof: ProofRequired = False,
        max_cost: MaxCost = None,
    ) -> Response:
        """The body holds the inputs. Answers with the result, whether the workflow succeeded or failed.

        Status 202 means that it has not ended: it waits for an answer or a signal, or `wait` is false. The run
        continues when the client leaves; `GET /runs/{run_id}/events` follows it.
        """
        inputs = (wish).root
        if too_deep(inputs, await request.body()):
            raise InvalidInputs("The inputs are nested too deep", hint="Give long material as text or as files.")
        make = partial(_task, name=name, inputs=inputs, model_key=model_key, network_allowed=network_allowed)
        task = (await files.ask(partial(make, encrypted=encrypt))).asked_by(who_asks(request))
        task = replace(task, visibility=visibility, pool=pool or "")
        task = on_terms(runs.config, task, require_proof=require_proof, max_cost=max_cost)
        drive = await start_for(runs.start, request, task)
        if isinstance(drive, RunResult):
            return await _standing(runs, drive.run_id)
        return await _outcome(runs, drive, task) if wait else await _standing(runs, drive.run_id, 202)


def _task(workflows: Workflows, *, name: str, inputs: Mapping[str, Any], **options: Any) -> Task:
    return workflows.task(workflows.get(name), inputs, **options)


def _add_runs(routes: Routes, runs: ServedRuns) -> None:
    @routes.get("", Scope.RUNS_READ, "Show the current state of a workflow's run", WORKFLOW_RESULT, fails=[404])
    async def show(run_id: RunIdPath, by: Principal) -> Response:
        """Its result as far as there is one; `_meta.waiting_for` says what it waits for."""
        return await _standing(runs, await runs.find(run_id, by=by), 200)

    @routes.post("/signal", Scope.WORKFLOWS, "Send a signal to a workflow", STATUS, fails=[404, 409, 503, 507])
    async def signal(wish: SignalRequest, run_id: RunIdPath, request: Request) -> Response:
        """The signal is kept until a step waits for it. A run that waited continues within a second."""
        if too_deep(wish.data, await request.body()):
            raise InvalidInputs("The data is nested too deep", hint="Give long material as text.")
        found = await runs.find(run_id, by=who_asks(request))
        with about(found):
            await signal_workflow(runs.records)(found, wish.name, wish.data, by=who_asks(request).name)
        return json_answer({"run_id": found, "status": await status_of(runs, found)})


def _add_changing(routes: Routes, runs: ServedRuns) -> None:
    refusals = [404, 409, 503, 507]

    @routes.post("/resume", Scope.WORKFLOWS, "Resume a workflow", WORKFLOW_RESULT, also=_WAITS, fails=refusals)
    async def resume(
        wish: OptionalBody[WorkflowResumeRequest], run_id: RunIdPath, request: Request, wait: Wait = False
    ) -> Response:
        """One that has not ended continues where it stands. One that has failed continues in a new run, `run_id`.

        The new run keeps what has succeeded; with `from`, that step and everything behind it is done again,
        with `current` whatever has changed in the file.
        """
        if wish.inputs and not wish.current:
            raise InvalidInputs(
                "A run keeps the inputs that it began with", hint="With `current`, `inputs` are those new in the file."
            )
        found = await runs.find(run_id, by=who_asks(request))
        state = _require_workflow(await state_of(runs, found))
        with about(found):
            anew = wish.from_step is not None or wish.current
            if not anew and state.status is RunStatus.COMPLETED:
                return await _standing(runs, found)
            if not anew and not state.status.settled:
                task = state.task
                drive = await resume_for(runs.start, request, found)
            else:
                records = runs.records
                current = open_workflows(records.layout.root, runs.config) if wish.current else None
                fork = fork_workflow(records, current, lambda _: wish.inputs)
                forked = await fork(found, from_step=wish.from_step or "")
                task = forked.task.asked_by(who_asks(request))
                drive = await start_for(runs.start, request, task, then=forked.then, copy_of=forked.copy_of)
        if isinstance(drive, RunResult):
            return await _standing(runs, drive.run_id)
        return await _outcome(runs, drive, task) if wait else await _standing(runs, drive.run_id, 202)

    @routes.post("/cancel", Scope.WORKFLOWS, "End a workflow", WORKFLOW_RESULT, fails=refusals)
    async def cancel(wish: OptionalBody[CancelRequest], run_id: RunIdPath, by: Principal) -> Response:
        """End a workflow and the runs that work for it. One that has ended stays as it is."""
        found = await runs.find(run_id, by=by)
        _require_workflow(await state_of(runs, found))
        with about(found):
            await runs.cancel_run(found, by=by.name, reason=wish.reason)
        return await _standing(runs, found)


def _require_workflow(state: RunState) -> RunState:
    if state.workflow is None:
        raise RunNotFound(f"Run {state.run_id} is not a workflow", hint=f"See it under /runs/{state.run_id}.")
    return state


async def _outcome(runs: ServedRuns, drive: Drive, task: Task | None) -> Response:
    """Wait for a run, and answer with what it came to."""
    result = await wait_for_result(drive)
    assert task is not None
    assert task.workflow is not None
    shown = settled_object(result, runs.run_dir(result.run_id), task.workflow)
    return await _standing(runs, result.run_id) if shown is None else _answer(shown)


async def _standing(runs: ServedRuns, run_id: RunId, status: int | None = None) -> Response:
    """Answer with how a run stands."""
    view = await look_at(runs, run_id)
    state = _require_workflow(view.state)
    shown = await workflow_object(partial(state_of, runs), state, runs.run_dir(run_id), status=view.status)
    return _answer(shown, status)


def _answer(shown: dict[str, Any], status: int | None = None) -> Response:
    run_id = shown["_meta"]["run_id"]
    has_ended = RunStatus(shown["_meta"]["status"]).settled
    code = status or (200 if has_ended else 202)
    headers = {} if code == 200 else {"location": f"{BASE}/runs/{run_id}"}
    return json_answer({**shown, "run_id": run_id}, code, headers)
