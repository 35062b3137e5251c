"""Checks a workflow definition before it runs and reports every problem to its author.

Takes time in proportion to the size of the definition, whatever stands in it, and never raises.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from agent_fabric.domain.definitions.declarations import declared_parameters
from agent_fabric.domain.definitions.expressions.references import check_syntax
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.definitions.parameters import TYPES, unfit
from agent_fabric.domain.definitions.problems import CheckPosition, Problem, ProblemCollector, show_value
from agent_fabric.domain.definitions.validate import check_kind, is_plain
from agent_fabric.domain.tools.json_schema import faults_in_schema
from agent_fabric.domain.workflows.attempt_events import NOT_RETRIED, form_schema
from agent_fabric.domain.workflows.checks.action_rules import RULES, SPECIAL_FIELDS, ActionRule
from agent_fabric.domain.workflows.checks.flow import Flow
from agent_fabric.domain.workflows.checks.graph import Graph, GraphNode, check_dependencies, graph_of
from agent_fabric.domain.workflows.checks.output_types import AgentShape, KnownNames, fits_type, type_of
from agent_fabric.domain.workflows.checks.shape import MAX_STEPS, WORKFLOW
from agent_fabric.domain.workflows.checks.triggers import check_triggers
from agent_fabric.domain.workflows.command_line import split_command
from agent_fabric.domain.workflows.definition import BuiltIn

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


# Checks each step against what its action needs: fields, inputs and their types, and names of agents and workflows.
_FOR_A_SHELL: Final = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1", "2>"})
_USUAL_ACTIONS: Final = {
    **dict.fromkeys(("run", "shell", "command", "exec", "bash", "script"), BuiltIn.RUN_COMMAND.value),
    **dict.fromkeys(("agent", "llm", "prompt", "ask"), BuiltIn.INVOKE_AGENT.value),
    **dict.fromkeys(("http", "request", "fetch", "curl", "get"), BuiltIn.HTTP_REQUEST.value),
    **dict.fromkeys(("sleep", "delay", "pause"), BuiltIn.WAIT.value),
    **dict.fromkeys(("if", "branch", "switch"), BuiltIn.CONDITIONAL.value),
    **dict.fromkeys(("parallel", "group"), BuiltIn.PARALLEL_GROUP.value),
    **dict.fromkeys(("loop", "foreach", "map"), BuiltIn.FOR_EACH.value),
    **dict.fromkeys(("approval", "human"), BuiltIn.APPROVE.value),
    **dict.fromkeys(("notify", "message", "send"), BuiltIn.SEND_MESSAGE.value),
    **dict.fromkeys(("set", "compute"), BuiltIn.TRANSFORM.value),
}


_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_RAW: Final = re.compile(r"\{%-?\s*raw\s*-?%\}.*?\{%-?\s*endraw\s*-?%\}", re.DOTALL)
"""Text in which nothing is filled in."""


class ActionCheck:
    """The check of every step against its action."""

    def __init__(
        self, graph: Graph, inputs: Mapping[str, Parameter], known: KnownNames, findings: ProblemCollector
    ) -> None:
        self._graph = graph
        self._inputs = inputs
        self._known = known
        self._findings = findings

    def check(self, workflow_name: object) -> None:
        """Note what is wrong with the steps."""
        for node in self._graph.nodes():
            rule = RULES.get(node.action)
            if rule is not None:
                self._check_fields(node, rule)
                self._check_inputs(node, rule)
            elif node.action in self._known.actions:
                self._refuse_fields(node, ())
            elif node.action:
                self._unknown_action(node)
            self._check_retry(node)
            self._check_names(node)
            match node.action:
                case BuiltIn.RUN_COMMAND:
                    self._check_command(node)
                case BuiltIn.INVOKE_AGENT:
                    self._check_agent(node)
                case BuiltIn.WORKFLOW:
                    self._check_workflow(node, workflow_name)
                case BuiltIn.VALIDATE:
                    self._check_rules(node)
                case BuiltIn.APPROVE:
                    self._check_form(node)
                case _:
                    pass

    def _check_names(self, node: GraphNode) -> None:
        for part in ("inputs", "outputs"):
            for name in node.part(part):
                if "{{" in str(name):
                    hint = "Names are fixed, so that others can refer to them. Put what you compute one level deeper."
                    self._findings.add(node.place.below(part), f"{part}: {show_value(name)} cannot be a name", hint)

    def _unknown_action(self, node: GraphNode) -> None:
        usual = _USUAL_ACTIONS.get(node.action.lower())
        known = [*RULES, *sorted(self._known.actions)]
        hint = f"Did you mean {usual!r}?" if usual else self._findings.did_you_mean(node.action, known)
        self._findings.add(node.place.below("action"), f"there is no action {node.action!r}", hint)

    def _check_fields(self, node: GraphNode, rule: ActionRule) -> None:
        for name in rule.needs:
            if node.plain.get(name) in (None, "", [], {}):
                self._findings.add(node.place, f"{node.action} needs {name!r}", f"Add {_example(rule, name)}")
        if rule.needs_one_of and all(not node.plain.get(name) for name in rule.needs_one_of):
            names = " or ".join(repr(name) for name in rule.needs_one_of)
            self._findings.add(node.place, f"{node.action} needs {names}", "Add the steps to run, under then:")
        self._refuse_fields(node, rule.uses)

    def _refuse_fields(self, node: GraphNode, uses: tuple[str, ...]) -> None:
        for name in SPECIAL_FIELDS:
            if name not in uses and node.plain.get(name) not in (None, "", [], {}):
                users = [action for action, rule in RULES.items() if name in rule.uses]
                hint = f"Take it out, or use the action {' or '.join(users)}."
                self._findings.add(node.place.below(name), f"{node.action} does not use {name!r}", hint)

    def _check_inputs(self, node: GraphNode, rule: ActionRule) -> None:
        given = node.part("inputs")
        there = [name for name in rule.one_input_of if name in given]
        if rule.one_input_of and len(there) != 1:
            names = ", ".join(rule.one_input_of)
            if there:
                message = f"{node.action} takes exactly one of {names}, not {' and '.join(there)}"
            else:
                message = f"{node.action} needs exactly one of {names} in its inputs"
            self._findings.add(node.place.below("inputs"), message, f"Write {rule.example}")
        if given or "inputs" not in rule.needs:
            for name, each in rule.inputs.items():
                if each.required and name not in given:
                    hint = self._near_or(name, given, f"Add it: {rule.example}")
                    self._findings.add(node.place.below("inputs"), f"{node.action} needs inputs.{name}", hint)
        for name, each in rule.inputs.items():
            if name in given:
                self._check_type(node, name, Parameter(type=each.type), f"{node.action} takes")
        for name in given:
            if name not in rule.inputs and not rule.other_inputs:
                otherwise = f"It takes {', '.join(rule.inputs)}." if rule.inputs else "It takes no inputs."
                hint = self._findings.did_you_mean(name, rule.inputs, otherwise=otherwise)
                self._findings.add(node.place.below("inputs", name), f"{node.action} does not use inputs.{name}", hint)
        if node.action == BuiltIn.HTTP_REQUEST:
            self._check_url(node, given.get("url"))
        if node.action == BuiltIn.WAIT:
            self._check_moment(node, given.get("until"))

    def _near_or(self, name: str, given: Mapping[str, Any], otherwise: str) -> str:
        near = self._findings.did_you_mean(name, given, otherwise=" ").strip()
        return f"There is {near.removeprefix('Did you mean ').rstrip('?')}: call it {name!r}." if near else otherwise

    def _check_url(self, node: GraphNode, url: object) -> None:
        if isinstance(url, str) and not url.lstrip().startswith(("{{", "http://", "https://")):
            hint = "Write the whole address: https://example.com/…"
            self._findings.add(node.place.below("inputs", "url"), f"inputs.url is {show_value(url)}, no address", hint)

    def _check_moment(self, node: GraphNode, until: object) -> None:
        if not isinstance(until, str) or "{{" in until:
            return
        try:
            datetime.fromisoformat(until.strip())
        except ValueError:
            hint = "Write date and time: 2026-12-24T18:00:00Z"
            self._findings.add(
                node.place.below("inputs", "until"), f"inputs.until is {show_value(until)}, no moment", hint
            )

    def _check_type(self, node: GraphNode, name: str, wanted: Parameter, who: str) -> None:
        value = node.part("inputs")[name]
        at = node.place.below("inputs", name)
        if isinstance(value, str) and "{{" in value:
            got = type_of(value, self._graph, self._inputs, self._known)
            if not fits_type(wanted.type, got):
                self._findings.add(at, f"inputs.{name}: {who} {_a(wanted.type)}, but {value[:60]} is {_a(got)}")
            return
        if unfit(Parameter(type=wanted.type), value, name):
            self._findings.add(at, f"inputs.{name}: {who} {_a(wanted.type)}, not {show_value(value)}")
        elif not isinstance(value, list | dict):
            for message in unfit(wanted, value, f"inputs.{name}"):
                self._findings.add(at, message)

    def _check_script(self, node: GraphNode, words: Sequence[str]) -> None:
        """A value in the text that a shell reads would be read as commands."""
        if not words or words[0].rpartition("/")[2] not in _SHELLS:
            return
        for option, script in pairwise(words[1:]):
            if not option.startswith("-"):
                return
            if "c" in option and not option.startswith("--"):
                if "{{" in _RAW.sub("", script):
                    message = "the shell would read a value in its script as commands"
                    hint = 'Hand it over as an argument: command: [sh, -c, \'echo "$1"\', sh, "{{ … }}"]'
                    self._findings.add(node.place.below("command"), message, hint)
                return

    def _check_command(self, node: GraphNode) -> None:
        command = node.plain.get("command")
        if isinstance(command, list):
            self._check_script(node, [word for word in command if isinstance(word, str)])
        if not isinstance(command, str) or check_syntax(command):  # an expression left open: the flow's problem
            return
        at = node.place.below("command")
        try:
            words = split_command(command)
        except ValueError as error:
            hint = 'Close the quotation mark, or write the command as a list: [echo, "it\'s"]'
            self._findings.add(at, f"the command cannot be split into arguments: {error}", hint)
            return
        self._check_script(node, words)
        for word in words:
            if word in _FOR_A_SHELL or (word.endswith(";") and word != words[0]):
                hint = f"No shell reads the command. If you need one: command: [sh, -c, {command[:60]!r}]"
                self._findings.add(at, f"{word!r} would be handed to {words[0]!r} as an argument", hint)
                return

    def _check_agent(self, node: GraphNode) -> None:
        name = node.plain.get("agent")
        if not isinstance(name, str) or self._known.agents is None or not name:
            return
        agent = self._known.agents.get(name)
        if agent is None:
            hint = self._findings.did_you_mean(
                name, self._known.agents, otherwise="`fabric agents list` shows those that there are."
            )
            self._findings.add(node.place.below("agent"), f"there is no agent {name!r}", hint)
            return
        given = node.part("inputs")
        for each, parameter in agent.inputs.items():
            if each in given:
                self._check_type(node, each, parameter, f"the agent {name!r} takes")
            elif parameter.required and not parameter.has_default:
                near = self._near_or(each, {key: 0 for key in given if key not in agent.inputs}, f"Add inputs.{each}.")
                self._findings.add(node.place, f"the agent {name!r} needs the input {each!r}", near)
        for each in given:
            if each not in agent.inputs and agent.inputs:
                hint = self._findings.did_you_mean(each, agent.inputs)
                self._findings.add(
                    node.place.below("inputs", each), f"the agent {name!r} takes no input {each!r}", hint
                )

    def _check_workflow(self, node: GraphNode, workflow_name: object) -> None:
        name = node.plain.get("workflow")
        if not isinstance(name, str) or not name:
            return
        at = node.place.below("workflow")
        if name == workflow_name:
            if all(each.plain.get("condition") is None for each in node.chain()):
                hint = "Give the step a condition that ends it, or call another workflow."
                self._findings.add(at, "the workflow calls itself without end", hint)
        elif self._known.workflows is not None and name not in self._known.workflows:
            hint = self._findings.did_you_mean(
                name, sorted(self._known.workflows), otherwise="`fabric workflow list` shows those that there are."
            )
            self._findings.add(at, f"there is no workflow {name!r}", hint)

    def _check_rules(self, node: GraphNode) -> None:
        given = node.part("inputs")
        if given and "schema" not in given and "rules" not in given:
            hint = 'Add inputs.schema, or inputs.rules: ["data.count > 0"]'
            self._findings.add(node.place.below("inputs"), "validate needs inputs.schema or inputs.rules", hint)
        for path, wrong in faults_in_schema(given.get("schema", {}), expressions=True):
            if path:  # that it is a mapping has been checked
                name = ".".join(map(str, ("inputs", "schema", *path)))
                self._findings.add(node.place.below("inputs", "schema", *path), f"{name} {wrong}")
        rules = given.get("rules")
        for index, rule in enumerate(rules if isinstance(rules, list) else ()):
            text = rule.get("rule") if isinstance(rule, dict) else rule
            if not isinstance(text, str) or not text.strip():
                hint = 'Write "data.count > 0", or {rule: "data.count > 0", message: "nothing was found"}'
                self._findings.add(
                    node.place.below("inputs", "rules", index), f"inputs.rules[{index}] must be an expression", hint
                )

    def _check_form(self, node: GraphNode) -> None:
        form = node.part("inputs").get("form")
        if isinstance(form, Mapping) and form:
            for path, wrong in faults_in_schema(form_schema(form), expressions=True):
                name = ".".join(map(str, ("inputs", "form", *path)))
                self._findings.add(node.place.below("inputs", "form"), f"{name} {wrong}")

    def _check_retry(self, node: GraphNode) -> None:
        rule = RULES.get(node.action)
        attempts = node.part("retry").get("max_attempts")
        if rule is not None and not rule.again and isinstance(attempts, int) and attempts > 1:
            hint = "Put it on the steps inside." if "steps" in rule.uses or "then" in rule.uses else "Take it out."
            self._findings.add(node.place.below("retry"), f"{node.action} is never tried again", hint)
        errors = node.part("retry").get("on")
        for index, error in enumerate(errors if isinstance(errors, list) else ()):
            if isinstance(error, str) and error in NOT_RETRIED:
                self._findings.add(
                    node.place.below("retry", "on", index), f"{error!r} is never tried again", "Take it out."
                )


def _example(rule: ActionRule, name: str) -> str:
    if rule.example.startswith(f"{name}:"):
        return rule.example
    return {"steps": "steps: with the steps that it runs", "inputs": rule.example}.get(name, f"{name}:")


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aio" else f"a {kind}"
