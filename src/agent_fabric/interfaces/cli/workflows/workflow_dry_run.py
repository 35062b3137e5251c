"""What a workflow would do: every step in order, as far as it can be known before anything has run."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_fabric.domain.ids import RunId
from agent_fabric.domain.workflows.command_line import command_text
from agent_fabric.domain.workflows.definition import WorkflowDefinition
from agent_fabric.domain.workflows.dry_run import DryRunScope
from agent_fabric.domain.workflows.evolve import initial_workflow_state
from agent_fabric.domain.workflows.result import result_of_workflow
from agent_fabric.domain.workflows.scope import ExpressionError
from agent_fabric.interfaces.cli.output import plain, print_json
from agent_fabric.interfaces.cli.workflows.workflow_summary import shown_value
from agent_fabric.interfaces.views.workflows.graph import Drawn, drawn


def print_dry_run(definition: WorkflowDefinition, inputs: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what a run would do; nothing is run and nothing recorded."""
    result = dry_run(definition, inputs)
    if as_json:
        print_json({**result, "_meta": {"run_id": None, "status": None, "dry_run": True}})
        return
    foreseen = {each["step_id"]: each for each in result["step_results"]}
    sys.stdout.write(f"{plain(definition.name)} would do this; nothing has been run.\n\n")
    for each in drawn(definition):
        sys.stdout.write("\n".join(_lines(each, foreseen[each.step.id])) + "\n")


def dry_run(definition: WorkflowDefinition, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a run in which nothing is run: each step with its inputs as far as they are known."""
    dry = replace(definition, execution=replace(definition.execution, dry_run=True))
    workflow = initial_workflow_state(dry, inputs, RunId(""))
    result = result_of_workflow(workflow)
    scope = DryRunScope(workflow)
    steps = {step.id: step for step in definition.all_steps()}
    order = {each.step.id: nth for nth, each in enumerate(drawn(definition))}
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
