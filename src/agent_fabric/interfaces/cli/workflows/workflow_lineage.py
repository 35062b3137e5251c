"""`fabric workflow lineage`: which output fed which input."""

import sys
from typing import Annotated

import typer

from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.interfaces.cli.options import Last, RunIdArgument
from agent_fabric.interfaces.cli.output import plain, print_json
from agent_fabric.interfaces.cli.place import Place, RunAccess, at_place, choose_run_and, refuse_if
from agent_fabric.interfaces.views.workflows.lineage import (
    StepLineage,
    fed_by,
    feeds,
    lineage_object,
    lineage_of,
    require_known,
)
from agent_fabric.interfaces.views.workflows.result import workflow_of


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

    async def go(place: RunAccess) -> tuple[RunId, list[Event]]:
        found = await chosen.find(place)
        events = list(await place.events(found))
        workflow_of(fold(found, events))
        return found, events

    found, events = at_place(at, go)
    steps = lineage_of(events)
    if value is not None:
        require_known(steps, value)
        before, after = fed_by(steps, value), feeds(steps, value)
        if at.as_json:
            print_json({"run_id": found, "value": value, "fed_by": before, "feeds": after})
        else:
            sys.stdout.write(f"{plain(value)}\n")
            sys.stdout.write("".join(f"  from  {plain(each)}\n" for each in before) or "  from  nothing else\n")
            sys.stdout.write("".join(f"  into  {plain(each)}\n" for each in after) or "  into  nothing else\n")
    elif at.as_json:
        print_json(lineage_object(found, steps))
    else:
        sys.stdout.write("".join(map(_step_text, steps.values())) or "No step has begun.\n")


def _step_text(step: StepLineage) -> str:
    about = f"  run {step.child_run_id}" if step.child_run_id else ""
    about += f"  kept from run {step.reused_from}" if step.reused_from else ""
    lines = [f"{plain(step.lane)}  {plain(step.action)}".rstrip() + about]
    lines += [f"  {plain(name)} from {', '.join(map(plain, paths))}" for name, paths in step.inputs.items()]
    lines += [f"  gives {plain(name)} from {', '.join(map(plain, paths))}" for name, paths in step.outputs.items()]
    return "\n".join(lines) + "\n"
