"""Checks a workflow definition before it runs and reports every problem to its author.

Takes time in proportion to the size of the definition, whatever stands in it, and never raises.
"""

from collections.abc import Mapping
from typing import Any

from agent_fabric.domain.definitions.declarations import declared_parameters
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.definitions.parameters import TYPES
from agent_fabric.domain.definitions.problems import CheckPosition, Problem, ProblemCollector, show_value
from agent_fabric.domain.definitions.validate import check_kind, is_plain
from agent_fabric.domain.workflows.checks.action_check import ActionCheck
from agent_fabric.domain.workflows.checks.flow import Flow
from agent_fabric.domain.workflows.checks.graph import Graph, check_dependencies, graph_of
from agent_fabric.domain.workflows.checks.known_names import AgentShape, KnownNames
from agent_fabric.domain.workflows.checks.output_types import fits_type, type_of
from agent_fabric.domain.workflows.checks.shape import MAX_STEPS, WORKFLOW
from agent_fabric.domain.workflows.checks.triggers import check_triggers

__all__ = ["AgentShape", "KnownNames", "Problem", "problems_in"]

NOTHING_KNOWN = KnownNames()


def problems_in(plain: object, known: KnownNames = NOTHING_KNOWN) -> list[Problem]:
    """Return what must be changed before a definition can be run; an empty list means nothing.

    At most fifty problems are named; one more entry then explains how many are left.
    """
    findings = ProblemCollector()
    if not is_plain(plain, findings):
        return findings.all()
    if not isinstance(plain, dict):
        got = "it is empty" if plain is None else f"it is {show_value(plain)}"
        findings.add(CheckPosition(), f"a workflow must be a mapping, but {got}", "Begin with `name:` and `steps:`.")
        return findings.all()
    check_kind(plain, WORKFLOW, CheckPosition(), findings)
    inputs = declared_parameters(plain.get("inputs"), CheckPosition(("inputs",)), findings)
    check_triggers(plain.get("triggers"), findings)
    _check_execution(plain.get("execution"), findings)
    graph = graph_of(plain, findings)
    if _too_many(graph, findings):
        return findings.all()
    check_dependencies(graph, findings)
    _check_outputs(plain, graph, inputs, known, findings)
    ActionCheck(graph, inputs, known, findings).check(plain.get("name"))
    Flow(graph, inputs, known, findings).check(plain)
    return findings.all()


def _too_many(graph: Graph, findings: ProblemCollector) -> bool:
    count = sum(len(siblings.nodes) for siblings in graph.lists)
    if count <= MAX_STEPS:
        return False
    hint = "Move a part into a workflow of its own, or use for-each."
    findings.add(CheckPosition(("steps",)), f"there are {count} steps; a workflow may have {MAX_STEPS}", hint)
    return True


def _check_outputs(
    plain: Mapping[str, Any],
    graph: Graph,
    inputs: Mapping[str, Parameter],
    known: KnownNames,
    findings: ProblemCollector,
) -> None:
    outputs = plain.get("outputs")
    for name, each in outputs.items() if isinstance(outputs, dict) else ():
        place = CheckPosition(("outputs", name))
        if isinstance(each, str) and "{{" not in each and each not in TYPES:
            hint = f'Write {name}: "{{{{ STEP.FIELD }}}}"'
            findings.add(place, f"outputs.{name} is {each[:60]!r}, neither an expression nor a type", hint)
        if isinstance(each, dict) and each.get("type") in TYPES and each.get("value") is not None:
            got = type_of(each["value"], graph, inputs, known)
            if not fits_type(each["type"], got):
                message = f"outputs.{name} is declared as {each['type']}, but its value is {got}"
                findings.add(place.below("type"), message, "Change the type, or the value.")


def _check_execution(execution: object, findings: ProblemCollector) -> None:
    if (
        isinstance(execution, dict)
        and execution.get("fail_fast") is True
        and execution.get("continue_on_error") is True
    ):
        findings.add(
            CheckPosition(("execution", "fail_fast")),
            "execution.fail_fast and execution.continue_on_error contradict each other",
            "Keep one: fail_fast stops what runs, continue_on_error lets it continue.",
        )
