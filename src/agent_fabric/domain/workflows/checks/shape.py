"""The one table of what a workflow's file may say; the check and the JSON Schema are both made from it."""

from typing import Any, Final

from agent_fabric.domain.definitions.parameters import TYPES
from agent_fabric.domain.workflows.checks.fields import (
    ANYTHING,
    FLAG,
    IDENTIFIER,
    LIST,
    NAME,
    SEMVER,
    Either,
    Entries,
    Field,
    Group,
    Leaf,
    Steps,
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
_OTHER_NAMES: Final = {
    **dict.fromkeys(("str", "text"), "string"),
    **dict.fromkeys(("float", "double"), "number"),
    **dict.fromkeys(("dict", "map", "mapping"), "object"),
    "int": "integer",
    "bool": "boolean",
    "list": "array",
    "json": "any",
}
"""What people write for the types, from other languages."""
RESERVED_IDS: Final = frozenset(
    {"inputs", "item", "index", "secrets", "run", "workflow", "result"}
    | {"true", "false", "none", "and", "or", "not", "in", "is", "if", "else"}
)
"""What means something else in expressions."""


def _identifier_hint(value: Any) -> str:
    if not isinstance(value, str):
        return "Put quotes around it if it is meant as text." if value is not None else ""
    near = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in value.strip())[:64]
    near = f"_{near}" if near[:1].isdigit() else near
    return f"Write {near!r}: expressions read `a-b` as a minus b." if IDENTIFIER.fullmatch(near) else ""


def _name_hint(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    words = "".join(letter if letter.isascii() and letter.isalnum() else " " for letter in value.lower()).split()
    near = "-".join(words)[:64].strip("-")
    return f"Write {near!r}." if NAME.fullmatch(near) else "A name is like: release-notes"


def _version_hint(value: Any) -> str:
    if isinstance(value, str):
        parts = value.lstrip("v").split(".")
        if len(parts) < 3 and all(part.isdecimal() for part in parts):
            return f"Write {'.'.join([*parts, '0', '0'][:3])!r}."
        return "A version is like: 1.0.0"
    return f'Write it as text with three parts: "{value:g}.0"' if isinstance(value, float) else 'Write: "1.0.0"'


IDENTIFIER_TEXT: Final = text(
    "an identifier: letters, digits and _, at most 64, not beginning with a digit",
    pattern=IDENTIFIER,
    hint=_identifier_hint,
)

_CONDITION: Final = Leaf(
    words="an expression, true or false",
    schema={"anyOf": [{"type": "string", "minLength": 1}, {"type": "boolean"}]},
    fits=lambda value: isinstance(value, bool) or (isinstance(value, str) and bool(value.strip())),
)

_TYPE: Final = one_of(TYPES, usual=_OTHER_NAMES)

_PARAMETER_FIELDS: Final = {
    "type": Field(kind=_TYPE, doc="Type of the value.", default="any"),
    "description": Field(kind=text(), doc="What it is, for people."),
    "required": Field(kind=FLAG, doc="Whether a run cannot start without it.", default=False),
    "default": Field(kind=ANYTHING, doc="The value when none is given."),
    "enum": Field(kind=LIST, doc="The only values that it may have."),
}

INPUT: Final = Group(name="input", doc="A value that the workflow takes.", fields=_PARAMETER_FIELDS)

OUTPUT: Final = Group(
    name="output",
    doc="A value that the workflow gives.",
    fields={
        "type": _PARAMETER_FIELDS["type"],
        "description": _PARAMETER_FIELDS["description"],
        "value": Field(
            kind=ANYTHING, doc="Where it comes from: an expression over the steps, `{{ STEP.FIELD }}`.", required=False
        ),
    },
)

RETRY: Final = Group(
    name="retry",
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

STEP: Final = Group(
    name="step",
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
        "steps": Field(kind=Steps(), doc="`parallel-group`, `for-each`: the steps inside.", nullable=True),
        "then": Field(kind=Steps(), doc="`conditional`: the steps to run when the condition holds.", nullable=True),
        "else": Field(kind=Steps(), doc="`conditional`: the steps to run when it does not.", nullable=True),
    },
)

EXECUTION: Final = Group(
    name="execution",
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
            kind=FLAG, doc="After a failure, what does not need the failed step goes on.", default=False
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
    doc="What starts the workflow. Only `manual` is armed; the others are checked and shown.",
    fields={
        "manual": Field(kind=FLAG, doc="Whether people may start it.", default=True),
        "on_change": Field(
            kind=text_or_texts("path patterns", 'on_change: ["src/**"]'),
            doc="Patterns of files whose change starts it. Not armed yet.",
            nullable=True,
        ),
        "schedule": Field(
            kind=text("a cron expression"), doc="A cron expression, such as `0 3 * * *`. Not armed yet.", nullable=True
        ),
        "on_event": Field(
            kind=text_or_texts("event names", "on_event: [release.published]"),
            doc="Names of events that start it. Not armed yet.",
            nullable=True,
        ),
    },
)

WORKFLOW: Final = Group(
    name="workflow",
    doc="A workflow of agent-fabric.",
    fields={
        "name": Field(
            kind=text("a name of lower-case letters and digits, with - or _ between", pattern=NAME, hint=_name_hint),
            doc="How the workflow is called.",
            required=True,
            example="name: my-workflow",
        ),
        "version": Field(
            kind=text("a version like 1.0.0", pattern=SEMVER, hint=_version_hint), doc="Its version (semver)."
        ),
        "description": Field(kind=text(), doc="What it does, for people."),
        "triggers": Field(kind=TRIGGERS, doc="What starts it.", nullable=True),
        "inputs": Field(
            kind=Entries(
                of=Either(short=_TYPE, full=INPUT, hint="Write NAME: string, or NAME: {type: string}"),
                keys=IDENTIFIER_TEXT,
            ),
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
            kind=Steps(needed=True),
            doc="What is done.",
            required=True,
            example="steps: with at least one step, - id: …",
        ),
        "metadata": Field(kind=Entries(of=ANYTHING), doc="Whatever you want to note.", nullable=True),
    },
)
