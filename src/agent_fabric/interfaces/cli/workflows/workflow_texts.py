"""Workflows as people read them: a list, and one with everything that it takes and gives."""

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from agent_fabric.application.ports.workflows import WorkflowFile
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.interfaces.cli.output import colour, fit_width, plain, plain_lines
from agent_fabric.interfaces.cli.workflows.workflow_summary import shown_value
from agent_fabric.interfaces.views.workflows.graph import graph_text
from agent_fabric.interfaces.views.workflows.views import TRIGGER
from agent_fabric.wire.shape import Json

_NAMED = 10
"""Kept results that are told by name."""


def workflow_list(found: Sequence[Json]) -> str:
    """Return one line for each workflow of a list, and why a file cannot be used."""
    if not found:
        return (
            "There are no workflows here. Put a file into workflow-definitions/, next to the .fabric folder, "
            "then: fabric workflow validate\n"
        )
    width = max(len(each["name"]) for each in found)
    return "".join(_line(each, width) for each in found)


def shown_workflow(found: WorkflowFile, stream: TextIO) -> str:
    """Return everything about a workflow, or everything that is wrong with it."""
    definition = found.definition
    if definition is None:
        return "".join(f"{plain_lines(str(problem))}\n" for problem in found.problems)
    lines = [f"{colour(plain(definition.name), 'bold', stream)} {plain(definition.version)}"]
    if definition.description:
        lines.append(plain_lines(definition.description))
    for title, declared in (("inputs", definition.inputs), ("outputs", definition.outputs)):
        lines.append(f"{title}:" if declared else f"{title}: none")
        lines += [_parameter(name, each, is_input=title == "inputs") for name, each in declared.items()]
    execution = definition.execution
    options = [execution.mode.value, f"at most {execution.parallel_limit} at once"]
    options += [name for name in ("continue_on_error", "fail_fast", "dry_run") if getattr(execution, name)]
    options += [f"timeout {execution.timeout_s:g} s"] if execution.timeout_s is not None else []
    lines.append(f"execution: {', '.join(options)}")
    lines += [f"starts: {each}" for each in _triggers(map(TRIGGER.dump, found.triggers))]
    lines += [f"file: {plain(str(found.path))}", "steps:"]
    return "\n".join(lines) + "\n" + plain_lines(graph_text(definition)) + "\n"


def tell_kept(found: RunId, lanes: Sequence[LaneId]) -> None:
    """Say which results of a run the one that continues from it does not make again."""
    kept = "no results"
    if lanes:
        named = ", ".join(plain(lane) for lane in lanes[:_NAMED])
        more = ", …" if len(lanes) > _NAMED else ""
        kept = f"{len(lanes)} {'result' if len(lanes) == 1 else 'results'}: {named}{more}"
    sys.stderr.write(f"A new run continues from run {found} and keeps {kept}\n")


def _line(found: Json, width: int) -> str:
    name = f"{plain(found['name']):<{width}}"
    if not found["usable"]:
        first = found["problems"][0] if found["problems"] else None
        said = fit_width(first["message"], 80, sys.stdout) if first is not None else ""
        place = f" (line {first['line']})" if first is not None and first["line"] else ""
        return f"{name}  {colour('cannot be used', 'red', sys.stdout)}: {said}{place}\n"
    steps = found["steps"]
    waiting = [each for each in _triggers(found["triggers"]) if each != "by hand"]
    triggers = f"  [{'; '.join(waiting)}]" if waiting else ""
    number = f"{steps} {'step' if steps == 1 else 'steps'}"
    about = fit_width(found["description"], 60, sys.stdout)
    return f"{name}  {plain(found['version'])}  {number}  {about}".rstrip() + f"{triggers}\n"


def _triggers(triggers: Iterable[Json]) -> list[str]:
    return ["by hand" if each["kind"] == "manual" else f"{each['kind']} {plain(each['when'])}" for each in triggers]


def _parameter(name: str, each: Parameter, *, is_input: bool) -> str:
    marks = [" | ".join(shown_value(choice, 40) for choice in each.choices) or each.type]
    if is_input:
        marks.append("required" if each.required else "optional")
    if each.has_default:
        marks[-1] = f"default {shown_value(each.default, 40)}"
    value = f" = {shown_value(each.value, 60)}" if each.value is not None else ""
    about = f": {fit_width(each.description, 80, sys.stdout)}" if each.description else ""
    return f"  {plain(name)} ({', '.join(marks)}){value}{about}"
