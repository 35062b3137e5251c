"""`fabric workflow run`, `resume`, `cancel` and `signal`: workflows under way."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.bootstrap.records import Records, open_records, this_person
from agent_fabric.bootstrap.runs import cancel_run
from agent_fabric.bootstrap.workflows import fork_workflow, open_workflows, require_by_hand, signal_workflow, sound
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.domain.workflows.definition import WorkflowDefinition
from agent_fabric.domain.workflows.inputs import accept_inputs
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import (
    Encrypt,
    Here,
    Last,
    NetworkAllowed,
    Pool,
    RunIdArgument,
    SeenBy,
    Untrusted,
    Verbose,
    configuration,
    existing_root,
    pool_name,
    strangers_text,
)
from agent_fabric.interfaces.cli.output import plain, print_json
from agent_fabric.interfaces.cli.place import (
    Place,
    choose_run,
    choose_run_and,
    refuse_if,
    with_client,
)
from agent_fabric.interfaces.cli.place_local import LocalRuns
from agent_fabric.interfaces.cli.runs.driving import drive_in_foreground
from agent_fabric.interfaces.cli.runs.foreground import local_job
from agent_fabric.interfaces.cli.runs.run import project_here
from agent_fabric.interfaces.cli.workflows.inputs import Inputs, typed_inputs
from agent_fabric.interfaces.cli.workflows.workflow_dry_run import print_dry_run
from agent_fabric.interfaces.cli.workflows.workflow_options import NameOrFile, find, inputs_from, is_file, json_object
from agent_fabric.interfaces.cli.workflows.workflow_places import find_at
from agent_fabric.interfaces.cli.workflows.workflow_texts import tell_kept
from agent_fabric.interfaces.views.workflows.result import workflow_object, workflow_of
from agent_fabric.wire.shape import Json

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient

T = TypeVar("T")


def run(  # noqa: PLR0913, PLR0917 - the options are a contract with the users
    name: NameOrFile,
    inputs: Inputs = None,
    inputs_file: Annotated[
        str | None,
        typer.Option("--inputs", metavar="FILE", help="Inputs as one JSON object; `-` is standard input."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    model_key: Annotated[str | None, typer.Option(metavar="KEY", help="The configured model that agents use.")] = None,
    network_allowed: NetworkAllowed = True,
    here: Here = False,
    untrusted: Untrusted = False,
    encrypt: Encrypt = False,
    visibility: SeenBy = None,
    pool: Pool = None,
    verbose: Verbose = False,
    *,
    at: Place,
) -> int:
    """Run a workflow, as a durable run. A server runs its own workflows, by name.

    Exit codes: 0 success, 1 failed or partial, 2 wrong usage, inputs or definition, 3 waiting for input,
    4 what it was for was denied or failed, 130 interrupted.

    \b
    Examples:
      fabric workflow run release-notes -i since=v1.0
      fabric workflow run ./triage.yaml --inputs inputs.json --json
    """  # noqa: D301 - the mark makes lines stay as they are
    url = at.url(local_only=here or is_file(name))
    overrides = strangers_text(untrusted, here=here)
    if url is not None:
        refuse_if(here, "--here does not work with a server", hint="The server does not have the files of this folder.")
        refuse_if(
            is_file(name) and not dry_run, "A server runs its own workflows, not files of this machine", hint=_OWN
        )
        definition = find_at(at, name).usable()
        given = _given(definition, inputs, inputs_file)
        if dry_run:
            require_by_hand(definition)
            print_dry_run(definition, accept_inputs(definition, given), as_json=at.as_json)
            return COMPLETED
        from agent_fabric.interfaces.cli.workflows.workflow_jobs import run_there  # noqa: PLC0415 - aiohttp takes its time

        options = {"model_key": model_key, "network_allowed": network_allowed, "encrypt": encrypt}
        job = run_there(url, name, given, **options, visibility=visibility, pool=pool_name(pool) or None)
        return drive_in_foreground(job, verbose=verbose, as_json=at.as_json)
    root = at.root()
    loaded = configuration(root, overrides)
    workflows = open_workflows(root, loaded.config)
    workflow = sound(find(workflows, name))
    definition = workflow.definition
    given = _given(definition, inputs, inputs_file)
    task = workflows.task(
        workflow,
        given,
        model_key=model_key,
        network_allowed=network_allowed,
        project=project_here(root, loaded.config) if here else None,
        encrypted=encrypt,
    )
    task = replace(task, visibility=visibility, pool=pool_name(pool))
    if dry_run:
        assert task.workflow is not None
        print_dry_run(definition, task.workflow.inputs, as_json=at.as_json)
        return COMPLETED

    async def work(fabric: LocalFabric, on_created: Callable[[RunId], None]) -> RunResult:
        return await fabric.execute_task(task, on_created=on_created)

    return drive_in_foreground(local_job(root, loaded, work), verbose=verbose, as_json=at.as_json)


_OWN = "Put the file into its workflow-definitions/; `fabric workflow validate FILE` checks it there beforehand."


def _given(definition: WorkflowDefinition, inputs: Sequence[str] | None, inputs_file: str | None) -> dict[str, Any]:
    given = dict(inputs_from(inputs_file)) if inputs_file is not None else {}
    return given | typed_inputs(inputs, definition.inputs, of=f"The workflow {definition.name!r}")


def resume(
    run_id: RunIdArgument = None,
    last: Last = False,
    from_step: Annotated[
        str | None, typer.Option("--from", metavar="STEP", help="Repeat this step and all after it, in a new run.")
    ] = None,
    current: Annotated[
        bool,
        typer.Option("--current", help="Use the current file; steps that have changed are repeated too."),
    ] = False,
    inputs: Inputs = None,
    verbose: Verbose = False,
    *,
    at: Place,
) -> int:
    """Resume a workflow. Steps that have succeeded are not repeated.

    A run that has not ended continues where it stands. A failed run, or any with --from or --current, is continued
    in a new run that keeps the earlier results. With --current, -i gives inputs that the file has since.
    """
    if inputs and not current:
        raise ConfigError(
            "A run keeps the inputs that it began with",
            hint="With --current, -i gives inputs that are new in the file.",
        )
    chosen = choose_run(run_id, last=last)
    url = at.url()
    if url is not None:
        from agent_fabric.interfaces.cli.workflows.workflow_jobs import resume_there  # noqa: PLC0415 - aiohttp takes its time

        job = resume_there(url, chosen, from_step=from_step, current=current, inputs=inputs or ())
        return drive_in_foreground(job, verbose=verbose, as_json=at.as_json)
    root = at.existing_root()
    loaded = configuration(root)

    async def work(fabric: LocalFabric, on_created: Callable[[RunId], None]) -> RunResult:
        found = await chosen.find(LocalRuns(fabric.records))
        state = await _state(fabric.records, found)
        workflow_of(state)
        if from_step is None and not current and (not state.status.settled or state.status is RunStatus.COMPLETED):
            on_created(found)
            return await fabric.resume_run(found)
        workflows = open_workflows(root, loaded.config) if current else None
        fork = fork_workflow(
            fabric.records,
            workflows,
            lambda file: typed_inputs(inputs, file.inputs, of=f"The workflow {file.name!r}"),
        )
        forked = await fork(found, from_step=from_step or "")
        tell_kept(found, [lane for lane, _ in forked.then])
        return await fabric.execute_task(forked.task, then=forked.then, copy_of=forked.copy_of, on_created=on_created)

    return drive_in_foreground(local_job(root, loaded, work), verbose=verbose, as_json=at.as_json)


def cancel(
    run_id: RunIdArgument = None,
    last: Last = False,
    reason: Annotated[str, typer.Option(help="Why, for the log.")] = "",
    *,
    at: Place,
) -> int:
    """End a workflow from anywhere, and the runs that work for it. What it has done stays."""
    chosen = choose_run(run_id, last=last)

    async def go(records: Records) -> Json:
        found = await chosen.find(LocalRuns(records))
        workflow_of(await _state(records, found))
        await cancel_run(records)(found, by=this_person(), reason=reason)

        async def read(other: RunId) -> RunState:
            return await _state(records, other)

        return await workflow_object(read, await read(found), records.layout.run_dir(found))

    async def go_there(client: "FabricClient") -> Json:
        from agent_fabric.interfaces.cli.place_remote import ServerRuns  # noqa: PLC0415 - aiohttp takes its time

        return await client.workflows.cancel(await chosen.find(ServerRuns(client)), reason=reason)

    url = at.url()
    if url is None:
        shown = _with_records(at.workspace, go)
    else:
        told = with_client(url, go_there)
        shown = {key: value for key, value in told.items() if key != "run_id"}  # which `_meta` has, too
    meta = shown["_meta"]
    cancelled = meta["status"] == RunStatus.CANCELLED
    if at.as_json:
        print_json(shown)
    elif cancelled:
        sys.stdout.write(f"Run {meta['run_id']} is cancelled.\n")
    else:
        sys.stdout.write(f"Run {meta['run_id']} had already ended: {meta['status']}.\n")
    return COMPLETED if cancelled else FAILED


def signal(
    run_id: RunIdArgument = None,
    signal_name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The name of the signal, as in the step that waits for it.")
    ] = None,
    last: Last = False,
    data: Annotated[str | None, typer.Option("--data", metavar="JSON", help="Data for the step.")] = None,
    *,
    at: Place,
) -> int:
    """Send a signal to a workflow. It is kept until a step waits for it."""
    chosen, names = choose_run_and(run_id, signal_name, last=last)
    refuse_if(len(names) != 1, "Name one signal", hint="For example: fabric workflow signal RUN_ID released")
    (name,) = names
    told = {} if data is None else json_object(data, "--data", """--data '{"version": "1.2"}'""")

    async def go(records: Records) -> tuple[RunId, bool, RunStatus]:
        found = await chosen.find(LocalRuns(records))
        await signal_workflow(records)(found, name, told, by=this_person())
        return found, records.has_server(), await records.storage.reader.status(found)

    async def go_there(client: "FabricClient") -> tuple[RunId, bool, RunStatus]:
        from agent_fabric.interfaces.cli.place_remote import ServerRuns  # noqa: PLC0415 - aiohttp takes its time

        found = await chosen.find(ServerRuns(client))
        return found, True, await client.workflows.signal(found, name, told)

    url = at.url()
    found, served, status = _with_records(at.workspace, go) if url is None else with_client(url, go_there)
    going_on = None if served or status is RunStatus.RUNNING else f"fabric resume {found}"
    if at.as_json:
        print_json({"run_id": found, "signal": name, "data": told, "resume": going_on})
    else:
        follows = f" Resume with: {going_on}" if going_on else " The run continues by itself."
        sys.stdout.write(f"Run {found} received the signal {plain(name)!r}.{follows}\n")
    return COMPLETED


async def _state(records: Records, run_id: RunId) -> RunState:
    return fold(run_id, await records.runs.read(run_id))


def _with_records(workspace: str | None, work: Callable[[Records], Coroutine[Any, Any, T]]) -> T:
    with open_records(existing_root(workspace)) as records:
        return asyncio.run(work(records))
