"""`fabric workflow`: graphs of steps, defined in files."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, USAGE
from agent_fabric.interfaces.cli.options import Last, RunIdArgument
from agent_fabric.interfaces.cli.output import from_here, plain, plain_lines
from agent_fabric.interfaces.cli.place import Place, PlainPlace, RunAccess, choose_run_and, refuse_if, with_run
from agent_fabric.interfaces.cli.workflows.definition_problems import count_checked, problem_lines
from agent_fabric.interfaces.cli.workflows.workflow_places import WORKFLOWS_AT, NameOrFile
from agent_fabric.interfaces.cli.workflows.workflow_runs import cancel, resume, run, signal
from agent_fabric.interfaces.cli.workflows.workflow_texts import shown_workflow, workflow_list
from agent_fabric.interfaces.views.workflows.graph import FORMATS, graph_dot, graph_mermaid, graph_text
from agent_fabric.interfaces.views.workflows.lineage import (
    StepLineage,
    fed_by,
    feeds,
    lineage_object,
    lineage_of,
    require_known,
)
from agent_fabric.interfaces.views.workflows.result import workflow_of
from agent_fabric.interfaces.views.workflows.views import workflow_object

_HELP = """\
See and run workflows: files in workflow-definitions/, as JSON or YAML.

\b
Examples:
  fabric workflow list
  fabric workflow validate release.yaml
  fabric workflow run release.yaml -i version=1.2 --dry-run
"""

app = new_app(_HELP)


@app.callback()
def workflow() -> None:
    """See and run workflows."""


@app.command("list")
def list_workflows(*, at: Place) -> None:
    """Show every workflow, and which files are wrong."""
    found = WORKFLOWS_AT(at, lambda workflows: workflows.everything())
    at.print(found, workflow_list(found["workflows"]))


@app.command()
def validate(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME|FILE]...", help="Which ones; by default all of them.")
    ] = None,
    *,
    at: Place,
) -> int:
    """Say everything that is wrong with workflows, with file and line. Nothing is run.

    With a server, files of this machine are checked together with the server's agents and workflows.

    Exit codes: 0 all can be run, 2 something is wrong.
    """
    checked = WORKFLOWS_AT(at, lambda workflows: workflows.check(files or ()))
    notes = (plain_lines(f"{from_here(each['file'])}: note: {each['note']}") for each in checked["noted"])
    text = "".join(f"{line}\n" for line in (*problem_lines(checked), *notes, count_checked(checked)))
    at.print({key: value for key, value in checked.items() if key != "noted"}, text)
    return COMPLETED if checked["valid"] else USAGE


@app.command()
def show(name: NameOrFile, *, at: Place) -> int:
    """Show a workflow: what it takes, what it gives, and its steps."""
    found = WORKFLOWS_AT(at, lambda workflows: workflows.find(name))
    at.print(workflow_object(found), shown_workflow(found, sys.stdout))
    return USAGE if found.definition is None else COMPLETED


@app.command()
def graph(
    name: NameOrFile,
    form: Annotated[str, typer.Option("--format", metavar="text|mermaid|dot", help="How to draw it.")] = "text",
    *,
    at: PlainPlace,
) -> None:
    """Draw a workflow: which step waits for which."""
    if form not in FORMATS:
        raise ConfigError(f"There is no format {form!r}", hint=f"Choose: {', '.join(FORMATS)}.")
    definition = WORKFLOWS_AT(at, lambda workflows: workflows.find(name)).usable()
    draw = {"text": graph_text, "mermaid": graph_mermaid, "dot": graph_dot}[form]
    sys.stdout.write(draw(definition))


for command in (run, resume, cancel, signal):
    app.command()(command)


@app.command()
def lineage(
    run_id: RunIdArgument = None,
    value: Annotated[
        str | None,
        typer.Argument(metavar="[STEP.FIELD]", help="Only what went into this value, and what it went into."),
    ] = None,
    last: Last = False,
    *,
    at: Place,
) -> None:
    """Show which output fed which input in a run of a workflow."""
    chosen, values = choose_run_and(run_id, value, last=last)
    refuse_if(len(values) > 1, "With --last there is no RUN_ID", hint="Leave out one of the two.")
    value = values[0] if values else None

    async def go(place: RunAccess, found: RunId) -> tuple[RunId, Sequence[Event]]:
        events = await place.events(found)
        workflow_of(fold(found, events))
        return found, events

    found, events = with_run(at, chosen, go)
    steps = lineage_of(events)
    if value is not None:
        require_known(steps, value)
        before, after = fed_by(steps, value), feeds(steps, value)
        text = "".join(f"  from  {plain(each)}\n" for each in before) or "  from  nothing else\n"
        text += "".join(f"  into  {plain(each)}\n" for each in after) or "  into  nothing else\n"
        at.print({"run_id": found, "value": value, "fed_by": before, "feeds": after}, f"{plain(value)}\n{text}")
    else:
        text = "".join(map(_step_text, steps.values())) or "No step has begun.\n"
        at.print(lineage_object(found, steps), text)


def _step_text(step: StepLineage) -> str:
    about = f"  run {step.child_run_id}" if step.child_run_id else ""
    about += f"  kept from run {step.reused_from}" if step.reused_from else ""
    lines = [f"{plain(step.lane)}  {plain(step.action)}".rstrip() + about]
    lines += [f"  {plain(name)} from {', '.join(map(plain, paths))}" for name, paths in step.inputs.items()]
    lines += [f"  gives {plain(name)} from {', '.join(map(plain, paths))}" for name, paths in step.outputs.items()]
    return "\n".join(lines) + "\n"
