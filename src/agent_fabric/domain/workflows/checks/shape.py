"""The fields of a workflow definition file. The check and the JSON Schema are built from this table."""

from typing import Final

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
    name_hint,
    number,
    one_of,
    seconds,
    text,
    text_or_texts,
    texts,
    whole,
)
from agent_fabric.domain.workflows.definition import DEFAULT_PARALLEL_LIMIT, MAX_PARALLEL, BuiltIn, Mode

MAX_STEPS: Final = 10_000
"""Steps of one workflow, nested ones too."""
LONGEST_S: Final = 366 * 86_400.0
RESERVED_IDS: Final = frozenset(
    {"inputs", "item", "index", "secrets", "run", "workflow", "result"}
    | {"true", "false", "none", "and", "or", "not", "in", "is", "if", "else"}
)
"""What means something else in expressions."""


_CONDITION: Final = Leaf(
    words="an expression, true or false",
    schema={"anyOf": [{"type": "string", "minLength": 1}, {"type": "boolean"}]},
    fits=lambda value: isinstance(value, bool) or (isinstance(value, str) and bool(value.strip())),
)

OUTPUT: Final = Group(
    name="output",
    doc="A value that the workflow gives.",
    fields={
        "type": PARAMETER.fields["type"],
        "description": PARAMETER.fields["description"],
        "value": Field(
            kind=ANYTHING, doc="Where it comes from: an expression over the steps, `{{ STEP.FIELD }}`.", required=False
        ),
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
    name="retry",
    aliases=dict.fromkeys(("attempts", "max", "times", "retries"), "max_attempts") | {"delay": "delay_seconds"},
    doc="How often, and after how long, a step that failed is tried again.",
    fields={
        "max_attempts": Field(kind=whole(1, 100), doc="Attempts in all.", default=1),
        "delay_seconds": Field(
            kind=seconds(above_zero=False, most=86_400), doc="Time before the second attempt.", default=0
        ),
        "backoff": Field(kind=number(1, 100), doc="Each further delay is this many times the one before.", default=1),
        "max_delay_seconds": Field(kind=seconds(above_zero=True, most=86_400), doc="No delay is longer.", default=3600),
        "on": Field(
            kind=texts("types of error", "on: [CommandFailed, TimeoutError]"),
            doc="The types of error that are worth another attempt; left out: all.",
            nullable=True,
        ),
    },
)


def steps(least: int = 0) -> Items:
    """Return a list of steps."""
    return Items(
        of=lambda: STEP,
        what="steps",
        least=least,
        hint="Write each step as an item: - id: …",
        example="- id: hello",
        ref="step",
    )


STEP: Final[Group] = Group(
    name="step",
    aliases=_STEP_ALIASES,
    doc="One step of a workflow.",
    fields={
        "id": Field(
            kind=IDENTIFIER_TEXT,
            doc="Name of the step in expressions; unique in the file.",
            required=True,
            example="id: fetch",
        ),
        "action": Field(
            kind=text("the name of an action"),
            doc="What the step does.",
            required=True,
            example=f"action: with one of {', '.join(each.value for each in BuiltIn)}",
        ),
        "description": Field(kind=text(), doc="What it is for, for people."),
        "agent": Field(kind=text("the name of an agent"), doc="`invoke-agent`: the agent.", nullable=True),
        "command": Field(
            kind=text_or_texts("arguments", "command: [git, log, --oneline]"),
            doc="`run-command`: the program and its arguments, as one text or as a list. A text is split before values "
            "are filled in, so a value is always one argument.",
            nullable=True,
        ),
        "workflow": Field(kind=text("the name of a workflow"), doc="`workflow`: the one to call.", nullable=True),
        "inputs": Field(kind=Entries(of=ANYTHING), doc="What the action is given; see each action.", nullable=True),
        "outputs": Field(
            kind=Entries(of=ANYTHING, keys=IDENTIFIER_TEXT),
            doc="More outputs, as expressions; `result` is what the action gave.",
            nullable=True,
        ),
        "condition": Field(
            kind=_CONDITION,
            doc="An expression. The step is skipped unless it holds; on `conditional` it picks the branch.",
            nullable=True,
        ),
        "depends_on": Field(
            kind=texts("step ids", "depends_on: [fetch]"),
            doc="Ids of steps of the same list that must be done before.",
            nullable=True,
        ),
        "retry": Field(kind=RETRY, doc="How often a step that failed is tried again.", nullable=True),
        "timeout": Field(
            kind=seconds(above_zero=True, most=LONGEST_S), doc="Seconds after which the step fails.", nullable=True
        ),
        "idempotent": Field(
            kind=FLAG,
            doc="Twice is the same as once: after a crash in the middle it simply runs again. Otherwise a person is "
            "asked.",
            default=False,
        ),
        "steps": Field(kind=steps(), doc="`parallel-group`, `for-each`: the steps inside.", nullable=True),
        "then": Field(kind=steps(), doc="`conditional`: the steps to run when the condition holds.", nullable=True),
        "else": Field(kind=steps(), doc="`conditional`: the steps to run when it does not.", nullable=True),
    },
)

EXECUTION: Final = Group(
    name="execution",
    aliases={"max_parallel": "parallel_limit", "concurrency": "parallel_limit", "timeout_s": "timeout"},
    doc="How the steps are carried out.",
    fields={
        "mode": Field(
            kind=one_of(mode.value for mode in Mode),
            doc="When a step may start. `dependency-aware`: as soon as its own dependencies are done. `sequential`: in "
            "the order of the file. `parallel`: in groups, one group after the other.",
            default=Mode.DEPENDENCY_AWARE.value,
        ),
        "parallel_limit": Field(
            kind=whole(1, MAX_PARALLEL), doc="Steps at work at the same time.", default=DEFAULT_PARALLEL_LIMIT
        ),
        "continue_on_error": Field(
            kind=FLAG, doc="After a failure, what does not need the failed step continues.", default=False
        ),
        "fail_fast": Field(kind=FLAG, doc="After a failure, what still runs is stopped.", default=False),
        "timeout": Field(
            kind=seconds(above_zero=True, most=LONGEST_S), doc="Seconds for the whole workflow.", nullable=True
        ),
        "dry_run": Field(kind=FLAG, doc="Only list what would be done.", default=False),
    },
)

TRIGGERS: Final = Group(
    name="triggers",
    doc="What starts the workflow. `fabric serve` arms all but `manual`.",
    fields={
        "manual": Field(kind=FLAG, doc="Whether people may start it.", default=True),
        "on_change": Field(
            kind=text_or_texts("path patterns", 'on_change: ["src/**"]'),
            doc="Patterns of files whose change starts it, beginning beside the fabric folder.",
            nullable=True,
        ),
        "schedule": Field(
            kind=text("a cron expression"),
            doc="A cron expression, such as `0 3 * * *`, in the zone `automation.timezone`.",
            nullable=True,
        ),
        "on_event": Field(
            kind=text_or_texts("event names", "on_event: [release.published]"),
            doc="Events that start it, such as `workflow.completed`.",
            nullable=True,
        ),
        "on_doubt": Field(
            kind=one_of([each.value for each in OnDoubt]),
            doc="What runs of `schedule` do about a step that a crash has cut off: `ask` a person, `skip` it, or "
            "`retry`, for which all steps have to be idempotent.",
            default="ask",
        ),
        "here": Field(
            kind=FLAG,
            doc="Whether runs that these start work on the project beside the fabric folder, as `--here` does.",
            default=False,
        ),
        "webhook": Field(
            kind=text_or_texts("names of webhooks", "webhook: code"),
            doc="Names of configured webhooks whose deliveries start it.",
            nullable=True,
        ),
    },
)

WORKFLOW: Final = Group(
    name="workflow",
    aliases={
        **dict.fromkeys(("jobs", "tasks", "nodes"), "steps"),
        **dict.fromkeys(("on", "trigger"), "triggers"),
        **dict.fromkeys(("title", "id"), "name"),
        **dict.fromkeys(("options", "settings"), "execution"),
    },
    doc="A workflow of agent-fabric.",
    fields={
        "name": Field(
            kind=text("a name of lower-case letters and digits, with - or _ between", pattern=NAME, hint=name_hint),
            doc="How the workflow is called.",
            required=True,
            example="name: my-workflow",
        ),
        "version": Field(kind=VERSION, doc="Its version (semver)."),
        "description": Field(kind=text(), doc="What it does, for people."),
        "triggers": Field(kind=TRIGGERS, doc="What starts it.", nullable=True),
        "inputs": Field(
            kind=PARAMETERS,
            doc="The values that it takes, each under its name: a type, or more about it.",
            nullable=True,
        ),
        "outputs": Field(
            kind=Entries(
                of=Either(
                    short=text("an expression in {{ }}, or a mapping with a value"),
                    full=OUTPUT,
                    hint='Write NAME: "{{ STEP.FIELD }}"',
                ),
                keys=IDENTIFIER_TEXT,
            ),
            doc="The values that it gives, each under its name: an expression, or more about it.",
            nullable=True,
        ),
        "execution": Field(kind=EXECUTION, doc="How the steps are carried out.", nullable=True),
        "steps": Field(
            kind=steps(least=1),
            doc="What is done.",
            required=True,
            example="steps: with at least one step, - id: …",
        ),
        "metadata": Field(kind=Entries(of=ANYTHING), doc="Whatever you want to note.", nullable=True),
    },
)
