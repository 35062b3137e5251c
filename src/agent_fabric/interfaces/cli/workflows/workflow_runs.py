"""`fabric workflow run`, `resume`, `cancel` and `signal`: workflows under way, and what one would do."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_fabric.application.runs.new_task import on_terms
from agent_fabric.bootstrap.records import this_person
from agent_fabric.bootstrap.workflows import fork_workflow, open_workflows, require_by_hand, signal_workflow, sound
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.domain.workflows.command_line import command_text
from agent_fabric.domain.workflows.definition import WorkflowDefinition
from agent_fabric.domain.workflows.events import StepFinished
from agent_fabric.domain.workflows.evolve import initial_workflow_state
from agent_fabric.domain.workflows.inputs import accept_inputs
from agent_fabric.domain.workflows.result import DryRunScope, result_of_workflow
from agent_fabric.domain.workflows.scope import ExpressionError
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import (
    Encrypt,
    Here,
    Last,
    MaxCost,
    NetworkAllowed,
    Pool,
    RequireProof,
    RunIdArgument,
    SeenBy,
    Untrusted,
    Verbose,
    configuration,
    pool_name,
    strangers_text,
)
from agent_fabric.interfaces.cli.output import plain, print_json
from agent_fabric.interfaces.cli.place import Place, RunAccess, choose_run, choose_run_and, refuse_if, with_run
from agent_fabric.interfaces.cli.place_local import LocalRuns
from agent_fabric.interfaces.cli.runs.driving import drive_in_foreground
from agent_fabric.interfaces.cli.runs.foreground import (
    Foreground,
    LocalForeground,
    foreground_at,
    foreground_elsewhere,
    foreground_here,
)
from agent_fabric.interfaces.cli.runs.run_task import project_here
from agent_fabric.interfaces.cli.workflows.inputs import Inputs, typed_inputs
from agent_fabric.interfaces.cli.workflows.workflow_places import (
    WORKFLOWS_AT,
    NameOrFile,
    find,
    inputs_from,
    is_file,
    json_object,
)
from agent_fabric.interfaces.cli.workflows.workflow_summary import shown_value
from agent_fabric.interfaces.cli.workflows.workflow_texts import tell_kept
from agent_fabric.interfaces.views.workflows.graph import Drawn, draw
from agent_fabric.interfaces.views.workflows.result import workflow_object, workflow_of
from agent_fabric.interfaces.views.workflows.views import found_from
from agent_fabric.wire.shape import Json

if TYPE_CHECKING:
    from agent_fabric.interfaces.cli.runs.foreground_remote import RemoteForeground


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
    require_proof: RequireProof = False,
    max_cost: MaxCost = None,
    *,
    at: Place,
) -> int:
    """Run a workflow, as a durable run. A server runs its own workflows, by name.

    Exit codes: 0 success, 1 failed or partial, 2 wrong usage, inputs or definition, 3 waiting for input,
    4 what it was for was denied or failed, 5 nothing bears an agent's result out though proof was required,
    130 interrupted.

    \b
    Examples:
      fabric workflow run release-notes -i since=v1.0
      fabric workflow run ./triage.yaml --inputs inputs.json --json
    """  # noqa: D301 - the mark makes lines stay as they are
    url = at.url(local_only=here or is_file(name))
    overrides = strangers_text(untrusted, here=here)
    if url is not None:
        opens = foreground_elsewhere(url, here=here)
        refuse_if(
            is_file(name) and not dry_run, "A server runs its own workflows, not files of this machine", hint=_OWN
        )
        definition = WORKFLOWS_AT(at, lambda workflows: workflows.find(name)).usable()
        given = _inputs_of(definition, inputs, inputs_file)
        if dry_run:
            require_by_hand(definition)
            print_dry_run(definition, accept_inputs(definition, given), as_json=at.as_json)
            return COMPLETED
        options: dict[str, Any] = {"model_key": model_key, "network_allowed": network_allowed, "encrypt": encrypt}
        options |= {"visibility": visibility, "pool": pool_name(pool) or None}
        options |= {"require_proof": require_proof, "max_cost": max_cost}
        return drive_in_foreground(
            opens,
            lambda there: there.start(there.client.workflows.start(name, given, **options)),
            at,
            verbose=verbose,
        )
    root = at.root()
    loaded = configuration(root, overrides)
    workflows = open_workflows(root, loaded.config)
    workflow = sound(find(workflows, name))
    definition = workflow.definition
    given = _inputs_of(definition, inputs, inputs_file)
    task = workflows.task(
        workflow,
        given,
        model_key=model_key,
        network_allowed=network_allowed,
        project=project_here(root, loaded.config) if here else None,
        encrypted=encrypt,
    )
    task = replace(task, visibility=visibility, pool=pool_name(pool))
    task = on_terms(loaded.config, task, require_proof=require_proof, max_cost=max_cost)
    if dry_run:
        assert task.workflow is not None
        print_dry_run(definition, task.workflow.inputs, as_json=at.as_json)
        return COMPLETED

    return drive_in_foreground(
        foreground_here(root, loaded), lambda foreground: foreground.start(task), at, verbose=verbose
    )


_OWN = "Put the file into its workflow-definitions/; `fabric workflow validate FILE` checks it there beforehand."


def _inputs_of(definition: WorkflowDefinition, inputs: Sequence[str] | None, inputs_file: str | None) -> dict[str, Any]:
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

    async def go_on(foreground: Foreground) -> RunResult:
        found = await chosen.find(foreground.runs)
        state = fold(found, await foreground.events(found))
        workflow_of(state)
        if from_step is None and not current and (not state.status.settled or state.status is RunStatus.COMPLETED):
            return await foreground.resume(found)
        if isinstance(foreground, LocalForeground):
            return await _fork_here(foreground, found, from_step, current=current, inputs=inputs or ())
        return await _fork_there(foreground, found, from_step, current=current, inputs=inputs or ())

    return drive_in_foreground(foreground_at(at), go_on, at, verbose=verbose)


async def _fork_here(
    foreground: LocalForeground, found: RunId, from_step: str | None, *, current: bool, inputs: Sequence[str]
) -> RunResult:
    """Continue a workflow in a new run that keeps earlier results."""
    records = foreground.fabric.records
    workflows = open_workflows(records.layout.root, foreground.loaded.config) if current else None
    fork = fork_workflow(
        records, workflows, lambda file: typed_inputs(inputs, file.inputs, of=f"The workflow {file.name!r}")
    )
    forked = await fork(found, from_step=from_step or "")
    tell_kept(found, [lane for lane, _ in forked.then])
    return await foreground.start(forked.task, then=forked.then, copy_of=forked.copy_of)


async def _fork_there(
    there: "RemoteForeground", found: RunId, from_step: str | None, *, current: bool, inputs: Sequence[str]
) -> RunResult:
    """Let a server do the same."""
    workflows = there.client.workflows
    given: dict[str, Any] = {}
    if inputs:
        shown = await workflows.run(found)
        definition = found_from(await workflows.show(shown["_meta"]["workflow"]["name"])).usable()
        given = typed_inputs(inputs, definition.inputs, of=f"The workflow {definition.name!r}")
    new = await workflows.resume(found, from_step=from_step, current=current, inputs=given)
    reused = (
        event.lane
        for event in await there.events(new)
        if isinstance(event.body, StepFinished) and event.body.reused_from is not None
    )
    tell_kept(found, [lane for lane in reused if lane is not None])
    there.run_id = new
    return await there.go_on(new)


def cancel(
    run_id: RunIdArgument = None,
    last: Last = False,
    reason: Annotated[str, typer.Option(help="Why, for the log.")] = "",
    *,
    at: Place,
) -> int:
    """End a workflow from anywhere, and the runs that work for it. What it has done stays."""

    async def end(place: RunAccess, found: RunId) -> Json:
        if not isinstance(place, LocalRuns):
            told = await place.client.workflows.cancel(found, reason=reason)
            return {key: value for key, value in told.items() if key != "run_id"}  # which `_meta` has, too
        read = partial(_state, place)
        workflow_of(await read(found))
        await place.cancel(found, reason=reason)
        return await workflow_object(read, await read(found), await place.run_dir(found))

    shown = with_run(at, choose_run(run_id, last=last), end)
    meta = shown["_meta"]
    cancelled = meta["status"] == RunStatus.CANCELLED
    how = "is cancelled" if cancelled else f"had already ended: {meta['status']}"
    at.print(shown, f"Run {meta['run_id']} {how}.\n")
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

    async def send(place: RunAccess, found: RunId) -> tuple[RunId, bool, RunStatus]:
        if not isinstance(place, LocalRuns):
            return found, True, await place.client.workflows.signal(found, name, told)
        await signal_workflow(place.records)(found, name, told, by=this_person())
        return found, place.records.has_server(), await place.records.storage.reader.status(found)

    found, served, status = with_run(at, chosen, send)
    going_on = None if served or status is RunStatus.RUNNING else f"fabric resume {found}"
    follows = f"Resume with: {going_on}" if going_on else "The run continues by itself."
    return at.print(
        {"run_id": found, "signal": name, "data": told, "resume": going_on},
        f"Run {found} received the signal {plain(name)!r}. {follows}\n",
    )


async def _state(place: LocalRuns, run_id: RunId) -> RunState:
    return fold(run_id, await place.events(run_id))


def print_dry_run(definition: WorkflowDefinition, inputs: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what a run would do; nothing is run and nothing recorded."""
    result = dry_run(definition, inputs)
    if as_json:
        print_json({**result, "_meta": {"run_id": None, "status": None, "dry_run": True}})
        return
    foreseen = {each["step_id"]: each for each in result["step_results"]}
    sys.stdout.write(f"{plain(definition.name)} would do this; nothing has been run.\n\n")
    for each in draw(definition):
        sys.stdout.write("\n".join(_lines(each, foreseen[each.step.id])) + "\n")


def dry_run(definition: WorkflowDefinition, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a run in which nothing is run: each step with its inputs as far as they are known."""
    dry = replace(definition, execution=replace(definition.execution, dry_run=True))
    workflow = initial_workflow_state(dry, inputs, RunId(""))
    result = result_of_workflow(workflow)
    scope = DryRunScope(workflow)
    steps = {step.id: step for step in definition.all_steps()}
    order = {each.step.id: nth for nth, each in enumerate(draw(definition))}
    result["step_results"].sort(key=lambda each: order[each["step_id"]])
    for entry in result["step_results"]:
        step = steps[entry["step_id"]]
        if step.command:
            entry["command"] = _command(step.command, scope)
    return result


def _command(command: str | tuple[str, ...], scope: Mapping[str, Any]) -> str:
    try:
        return command_text(command, scope)
    except ExpressionError:
        return command if isinstance(command, str) else " ".join(command)


def _lines(each: Drawn, entry: Mapping[str, Any]) -> list[str]:
    step, indent = each.step, "  " * each.depth
    lines = [f"{indent[:-1]}{each.branch}:"] if each.branch else []
    about = f" {plain(step.agent or step.workflow)}" if step.agent or step.workflow else ""
    after = f"  after {', '.join(step.depends_on)}" if step.depends_on else ""
    lines.append(f"{indent}{step.id}  {plain(step.action)}{about}{after}")
    if step.condition:
        holds = entry.get("condition")
        known = f" ({'holds' if holds else 'does not hold'})" if isinstance(holds, bool) else ""
        lines.append(f"{indent}    if {plain(step.condition)}{known}")
    if step.command:
        lines.append(f"{indent}    $ {plain(entry['command'])}")
    lines += [f"{indent}    {plain(name)}: {shown_value(value)}" for name, value in entry["inputs"].items()]
    return lines
