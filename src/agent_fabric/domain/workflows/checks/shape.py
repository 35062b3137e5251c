"""The fields of a workflow definition file. The check and the JSON Schema are built from this table."""

from typing import Any, Final

from agent_fabric.domain.approvals.answers import OnDoubt
from agent_fabric.domain.definitions.declarations import PARAMETER, PARAMETERS
from agent_fabric.domain.definitions.fields import (
    ANYTHING,
    FLAG,
    IDENTIFIER_TEXT,
    NAME,
    VERSION,
    Either,
    Entries,
    Field,
    Group,
    Items,
    Leaf,
    group_schema,
    name_hint,
    number,
    one_of,
    optional,
    schema_of_file,
    seconds,
    text,
    text_or_texts,
    texts,
    whole,
)
from agent_fabric.domain.workflows.checks.action_rules import RULES, ActionRule
from agent_fabric.domain.workflows.definition import DEFAULT_PARALLEL_LIMIT, MAX_PARALLEL, BuiltIn, Mode

MAX_STEPS: Final = 10_000
"""Steps of one workflow, nested ones too."""
_MAX_SECONDS: Final = 366 * 86_400.0
RESERVED_IDS: Final = frozenset(
    {"inputs", "item", "index", "secrets", "run", "workflow", "result"}
    | {"true", "false", "none", "and", "or", "not", "in", "is", "if", "else"}
)
"""What means something else in expressions."""


_CONDITION: Final = Leaf(
    "an expression, true or false",
    {"anyOf": [{"type": "string", "minLength": 1}, {"type": "boolean"}]},
    lambda value: isinstance(value, bool) or (isinstance(value, str) and bool(value.strip())),
)
_TIMEOUT: Final = seconds(above_zero=True, most=_MAX_SECONDS)

OUTPUT: Final = Group(
    "output",
    "A value that the workflow gives.",
    {
        "type": PARAMETER.fields["type"],
        "description": PARAMETER.fields["description"],
        "value": Field(ANYTHING, "Where it comes from: an expression over the steps, `{{ STEP.FIELD }}`."),
    },
)

_STEP_ALIASES: Final = {
    **dict.fromkeys(("run", "cmd", "script", "shell"), "command"),
    **dict.fromkeys(("needs", "depends", "after", "dependsOn", "requires"), "depends_on"),
    **dict.fromkeys(("when", "if", "only_if"), "condition"),
    **dict.fromkeys(("with", "args", "params", "parameters", "arguments", "input"), "inputs"),
    **dict.fromkeys(("name", "key"), "id"),
    **dict.fromkeys(("uses", "type", "kind"), "action"),
    **dict.fromkeys(("retries", "retry_policy"), "retry"),
    **dict.fromkeys(("timeout_s", "timeout_seconds", "timeoutSeconds"), "timeout"),
    **dict.fromkeys(("do", "body", "tasks"), "steps"),
}

RETRY: Final = Group(
    "retry",
    "How often, and after how long, a step that failed is tried again.",
    {
        "max_attempts": Field(whole(1, 100), "Attempts in all.", default=1),
        "delay_seconds": Field(seconds(above_zero=False, most=86_400), "Time before the second attempt.", default=0),
        "backoff": Field(number(1, 100), "Each further delay is this many times the one before.", default=1),
        "max_delay_seconds": Field(seconds(above_zero=True, most=86_400), "No delay is longer.", default=3600),
        "on": optional(
            texts("types of error", "on: [CommandFailed, TimeoutError]"),
            "The types of error that are worth another attempt; left out: all.",
        ),
    },
    dict.fromkeys(("attempts", "max", "times", "retries"), "max_attempts") | {"delay": "delay_seconds"},
)


def steps(example: str = "") -> Items:
    """Return a list of steps; with an example, at least one."""
    return Items(lambda: STEP, "steps", "Write each step as an item: - id: …", example, ref="step")


STEP: Final[Group] = Group(
    "step",
    "One step of a workflow.",
    {
        "id": Field(IDENTIFIER_TEXT, "Name of the step in expressions; unique in the file.", "id: fetch"),
        "action": Field(
            text("the name of an action"), "What the step does.", f"action: with one of {', '.join(BuiltIn)}"
        ),
        "description": Field(text(), "What it is for, for people."),
        "agent": optional(text("the name of an agent"), "`invoke-agent`: the agent."),
        "command": optional(
            text_or_texts("arguments", "command: [git, log, --oneline]"),
            "`run-command`: the program and its arguments, as one text or as a list. A text is split before values "
            "are filled in, so a value is always one argument.",
        ),
        "workflow": optional(text("the name of a workflow"), "`workflow`: the one to call."),
        "inputs": optional(Entries(ANYTHING), "What the action is given; see each action."),
        "outputs": optional(
            Entries(ANYTHING, IDENTIFIER_TEXT), "More outputs, as expressions; `result` is what the action gave."
        ),
        "condition": optional(
            _CONDITION, "An expression. The step is skipped unless it holds; on `conditional` it picks the branch."
        ),
        "depends_on": optional(
            texts("step ids", "depends_on: [fetch]"), "Ids of steps of the same list that must be done before."
        ),
        "retry": optional(RETRY, "How often a step that failed is tried again."),
        "timeout": optional(_TIMEOUT, "Seconds after which the step fails."),
        "idempotent": Field(
            FLAG,
            "Twice is the same as once: after a crash in the middle it simply runs again. Otherwise a person is asked.",
            default=False,
        ),
        "steps": optional(steps(), "`parallel-group`, `for-each`: the steps inside."),
        "then": optional(steps(), "`conditional`: the steps to run when the condition holds."),
        "else": optional(steps(), "`conditional`: the steps to run when it does not."),
    },
    _STEP_ALIASES,
)

EXECUTION: Final = Group(
    "execution",
    "How the steps are carried out.",
    {
        "mode": Field(
            one_of(Mode),
            "When a step may start. `dependency-aware`: as soon as its own dependencies are done. `sequential`: in "
            "the order of the file. `parallel`: in groups, one group after the other.",
            default=Mode.DEPENDENCY_AWARE.value,
        ),
        "parallel_limit": Field(
            whole(1, MAX_PARALLEL), "Steps at work at the same time.", default=DEFAULT_PARALLEL_LIMIT
        ),
        "continue_on_error": Field(
            FLAG, "After a failure, what does not need the failed step continues.", default=False
        ),
        "fail_fast": Field(FLAG, "After a failure, what still runs is stopped.", default=False),
        "timeout": optional(_TIMEOUT, "Seconds for the whole workflow."),
        "dry_run": Field(FLAG, "Only list what would be done.", default=False),
    },
    {"max_parallel": "parallel_limit", "concurrency": "parallel_limit", "timeout_s": "timeout"},
)

TRIGGERS: Final = Group(
    "triggers",
    "What starts the workflow. `fabric serve` arms all but `manual`.",
    {
        "manual": Field(FLAG, "Whether people may start it.", default=True),
        "on_change": optional(
            text_or_texts("path patterns", 'on_change: ["src/**"]'),
            "Patterns of files whose change starts it, beginning beside the fabric folder.",
        ),
        "schedule": optional(
            text("a cron expression"),
            "A cron expression, such as `0 3 * * *`, in the zone `automation.timezone`.",
        ),
        "on_event": optional(
            text_or_texts("event names", "on_event: [release.published]"),
            "Events that start it, such as `workflow.completed`.",
        ),
        "on_doubt": Field(
            one_of(OnDoubt),
            "What runs of `schedule` do about a step that a crash has cut off: `ask` a person, `skip` it, or "
            "`retry`, for which all steps have to be idempotent.",
            default="ask",
        ),
        "here": Field(
            FLAG,
            "Whether runs that these start work on the project beside the fabric folder, as `--here` does.",
            default=False,
        ),
        "webhook": optional(
            text_or_texts("names of webhooks", "webhook: code"),
            "Names of configured webhooks whose deliveries start it.",
        ),
    },
)

WORKFLOW: Final = Group(
    "workflow",
    "A workflow of agent-fabric.",
    {
        "name": Field(
            text("a name of lower-case letters and digits, with - or _ between", pattern=NAME, hint=name_hint),
            "How the workflow is called.",
            "name: my-workflow",
        ),
        "version": Field(VERSION, "Its version (semver)."),
        "description": Field(text(), "What it does, for people."),
        "triggers": optional(TRIGGERS, "What starts it."),
        "inputs": optional(PARAMETERS, "The values that it takes, each under its name: a type, or more about it."),
        "outputs": optional(
            Entries(
                Either(
                    text("an expression in {{ }}, or a mapping with a value"), OUTPUT, 'Write NAME: "{{ STEP.FIELD }}"'
                ),
                IDENTIFIER_TEXT,
            ),
            "The values that it gives, each under its name: an expression, or more about it.",
        ),
        "execution": optional(EXECUTION, "How the steps are carried out."),
        "steps": Field(steps("- id: hello"), "What is done.", "steps: with at least one step, - id: …"),
        "metadata": optional(Entries(ANYTHING), "Whatever you want to note."),
    },
    {
        **dict.fromkeys(("jobs", "tasks", "nodes"), "steps"),
        **dict.fromkeys(("on", "trigger"), "triggers"),
        **dict.fromkeys(("title", "id"), "name"),
        **dict.fromkeys(("options", "settings"), "execution"),
    },
)


def workflow_schema() -> dict[str, Any]:
    """Return the JSON Schema. It tells an editor what may be written where; what only the check finds is not in it."""
    step = group_schema(STEP)
    step["properties"]["action"] = {
        "description": STEP.fields["action"].doc,
        "anyOf": [
            *({"const": action, "description": rule.doc} for action, rule in RULES.items()),
            {"type": "string", "minLength": 1, "description": "An action that a package brings."},
        ],
    }
    step["allOf"] = [
        {
            "if": {"properties": {"action": {"const": action}}, "required": ["action"]},
            "then": _required_inputs(rule),
        }
        for action, rule in RULES.items()
    ]
    return schema_of_file("Workflow", WORKFLOW, **{"$defs": {"step": step}})


def _required_inputs(rule: ActionRule) -> dict[str, Any]:
    then: dict[str, Any] = {}
    needs = [*rule.needs, *(("inputs",) if rule.one_input_of and "inputs" not in rule.needs else ())]
    if needs:
        then["required"] = needs
    if rule.needs_one_of:
        then["anyOf"] = [{"required": [name]} for name in rule.needs_one_of]
    properties: dict[str, Any] = {}
    if rule.inputs:
        inputs: dict[str, Any] = {"properties": {name: {"description": each.doc} for name, each in rule.inputs.items()}}
        if required := [name for name, each in rule.inputs.items() if each.required]:
            inputs["required"] = required
        if rule.one_input_of:
            inputs["oneOf"] = [{"required": [name]} for name in rule.one_input_of]
        properties["inputs"] = inputs
    if "steps" in rule.needs:
        properties["steps"] = {"minItems": 1}
    return {**then, "properties": properties} if properties else then
