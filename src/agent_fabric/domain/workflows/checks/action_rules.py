"""What each built-in action needs and gives: one table for the check, the JSON Schema and the reference page."""

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.workflows.definition import BuiltIn

SPECIAL_FIELDS: Final = ("agent", "command", "workflow", "steps", "then", "else")
"""Fields of a step that only some actions use."""


@dataclass(frozen=True, slots=True)
class Given:
    """One of the inputs that an action reads."""

    doc: str
    type: str = "any"
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRule:
    """What an action needs and gives."""

    doc: str
    needs: tuple[str, ...] = ()
    """Fields that must be there."""
    needs_one_of: tuple[str, ...] = ()
    """Fields of which at least one must be there."""
    inputs: Mapping[str, Given] = field(default_factory=dict)
    one_input_of: tuple[str, ...] = ()
    """Inputs of which exactly one must be there."""
    other_inputs: bool = False
    """Whether further inputs mean something: they are handed on."""
    gives: Mapping[str, str] | None = None
    """Its outputs with their types; None: they cannot be known from the file."""
    again: bool = False
    """Whether `retry` means something: it has effects that may work the second time."""
    example: str = ""

    @property
    def uses(self) -> tuple[str, ...]:
        """The special fields that mean something here."""
        return (*(name for name in self.needs if name in SPECIAL_FIELDS), *self.needs_one_of)


_TIMEOUT: Final = Given("Seconds after which the step fails; the step's `timeout` does the same.", "number")

_RULES: Final[Mapping[BuiltIn, ActionRule]] = {
    BuiltIn.INVOKE_AGENT: ActionRule(
        doc="Lets an agent do a task, as a run of its own. Its inputs are the agent's inputs.",
        needs=("agent",),
        other_inputs=True,
        again=True,
        example="agent: summarizer",
    ),
    BuiltIn.RUN_COMMAND: ActionRule(
        doc="Runs a program in the sandbox, under the policy. Fails when the exit code is not 0.",
        needs=("command",),
        inputs={
            "env": Given("Environment variables by name.", "object"),
            "cwd": Given("The folder in which it runs.", "string"),
            "accept_exit_codes": Given("Exit codes besides 0 that are no failure: `[1]` for grep.", "array"),
        },
        gives={"exit_code": "integer", "stdout": "string", "stderr": "string", "truncated": "boolean"},
        again=True,
        example="command: [git, log, --oneline]",
    ),
    BuiltIn.VALIDATE: ActionRule(
        doc="Checks `data` against a JSON Schema and rules, and fails if it does not fit. Its inputs are its outputs.",
        needs=("inputs",),
        inputs={
            "data": Given("What is checked.", required=True),
            "schema": Given("A JSON Schema.", "object"),
            "rules": Given(
                "Expressions that must hold, or mappings of `rule` and `message`. They see the step's own inputs, "
                "such as `data`, too.",
                "array",
            ),
        },
        other_inputs=True,
        gives={},
        example='inputs: {data: "{{ fetch.json }}", rules: ["data.count > 0"]}',
    ),
    BuiltIn.TRANSFORM: ActionRule(
        doc="Computes values: its inputs, with the expressions filled in, are its outputs.",
        needs=("inputs",),
        other_inputs=True,
        gives={},
        example='inputs: {total: "{{ inputs.count + 1 }}"}',
    ),
    BuiltIn.CONDITIONAL: ActionRule(
        doc="Runs the steps in `then` if its condition holds, else those in `else`, one after another.",
        needs=("condition",),
        needs_one_of=("then", "else"),
        gives={"branch": "string"},
        example="condition: inputs.count > 3",
    ),
    BuiltIn.PARALLEL_GROUP: ActionRule(
        doc="Runs the steps inside at the same time; `depends_on` among them is honoured.",
        needs=("steps",),
        gives={},
        example="steps: [{id: first, action: transform, inputs: {n: 1}}]",
    ),
    BuiltIn.WAIT: ActionRule(
        doc="Waits for time to pass, for a signal or for a person; with `timeout` not for ever.",
        inputs={
            "seconds": Given("How long to wait.", "number"),
            "until": Given("The moment: `2026-12-24T18:00:00Z`, or seconds since 1970."),
            "event": Given("The name of the signal; `fabric workflow signal RUN NAME` sends it.", "string"),
            "approval": Given("What a person is asked."),
            "required": Given("With `approval`: whether a no fails the step.", "boolean"),
            "timeout": _TIMEOUT,
        },
        one_input_of=("seconds", "until", "event", "approval"),
        gives={"waited_for": "string", "data": "object", "approved": "boolean", "by": "string", "reason": "string"},
        example="inputs: {seconds: 60}",
    ),
    BuiltIn.HTTP_REQUEST: ActionRule(
        doc="Sends an HTTP request to a host that may be reached. Fails when the status is 400 or more.",
        needs=("inputs",),
        inputs={
            "url": Given("The address.", "string", required=True),
            "method": Given("`GET` unless it says otherwise.", "string"),
            "headers": Given("Headers by name.", "object"),
            "query": Given("What is added to the address, by name.", "object"),
            "json": Given("What is sent, as JSON."),
            "body": Given("What is sent, as text.", "string"),
            "form": Given("What is sent, as a form.", "object"),
            "timeout": Given("Seconds for the request.", "number"),
            "accept_status": Given("Statuses of 400 or more that are no failure: `404`, or a list of them."),
            "max_bytes": Given("How much of the answer is read.", "integer"),
        },
        gives={
            "status": "integer",
            "reason": "string",
            "headers": "object",
            "url": "string",
            "body": "string",
            "truncated": "boolean",
            "encoding": "string",
            "json": "any",
        },
        again=True,
        example='inputs: {url: "https://example.com/data.json"}',
    ),
    BuiltIn.READ_FILE: ActionRule(
        doc="Reads a text file of the workspace.",
        needs=("inputs",),
        inputs={"path": Given("The file, as seen from the workspace.", "string", required=True)},
        gives={"path": "string", "content": "string"},
        again=True,
        example="inputs: {path: notes.md}",
    ),
    BuiltIn.WRITE_FILE: ActionRule(
        doc="Makes a text file in the workspace, or replaces its whole content.",
        needs=("inputs",),
        inputs={
            "path": Given("The file, as seen from the workspace.", "string", required=True),
            "content": Given("The text.", "string", required=True),
        },
        gives={"path": "string", "bytes": "integer", "created": "boolean"},
        again=True,
        example='inputs: {path: notes.md, content: "{{ ask.summary }}"}',
    ),
    BuiltIn.SEND_MESSAGE: ActionRule(
        doc="Sends a message to a user, on the channels that they are paired on. A server delivers it.",
        needs=("inputs",),
        inputs={
            "to": Given("The user.", "string", required=True),
            "text": Given("The message, in Markdown.", "string", required=True),
            "channel": Given("Only there, such as `telegram`; left out: wherever they are paired.", "string"),
            "urgent": Given("Whether it is sent in their quiet hours, too.", "boolean"),
        },
        gives={"to": "string", "channels": "array", "messages": "integer"},
        again=True,
        example='inputs: {to: ann, text: "{{ ask.summary }}"}',
    ),
    BuiltIn.APPROVE: ActionRule(
        doc="Asks a person, perhaps with a form. Fails when the answer is no, unless `required` is false.",
        inputs={
            "message": Given("The question.", "string"),
            "form": Given("What the person fills in: a JSON Schema, or types by name.", "object"),
            "required": Given("Whether a no fails the step; true unless it says otherwise.", "boolean"),
            "timeout": _TIMEOUT,
        },
        gives={"approved": "boolean", "by": "string", "reason": "string", "form": "object"},
        example='inputs: {message: "Publish it?"}',
    ),
    BuiltIn.FOR_EACH: ActionRule(
        doc="Runs the steps inside for each item of a list; they see `item` and `index`.",
        needs=("inputs", "steps"),
        inputs={
            "items": Given("The list.", "array", required=True),
            "max_items": Given("The step fails when there are more; 1000 unless it says otherwise.", "integer"),
        },
        gives={"results": "array", "count": "integer"},
        example='inputs: {items: "{{ inputs.names }}"}',
    ),
    BuiltIn.WORKFLOW: ActionRule(
        doc="Calls another workflow, as a run of its own. Its inputs are that workflow's inputs.",
        needs=("workflow",),
        other_inputs=True,
        again=True,
        example="workflow: release-notes",
    ),
    BuiltIn.SEARCH_MEMORY: ActionRule(
        doc="Looks up documents and facts that the owner of the run may see.",
        needs=("inputs",),
        inputs={
            "query": Given("A question, or a few words.", "string", required=True),
            "max_results": Given("Most passages; 5 unless it says otherwise.", "integer"),
        },
        gives={"query": "string", "passages": "array", "facts": "array"},
        again=True,
        example='inputs: {query: "{{ inputs.question }}"}',
    ),
    BuiltIn.PROPOSE_FACT: ActionRule(
        doc="Proposes a fact to remember, which a person reviews. It rests on a quote of a document that was read.",
        needs=("inputs",),
        inputs={
            "text": Given("The sentence.", "string", required=True),
            "quote": Given(
                "Word for word from a passage that was found, or a file that was read.",
                "string",
                required=True,
            ),
            "kind": Given("`fact` unless it says `preference`, which does not expire.", "string"),
        },
        gives={"id": "string", "status": "string"},
        example='inputs: {text: "The pool opens at 9", quote: "{{ find.passages[0].text }}"}',
    ),
}

RULES: Final[Mapping[str, ActionRule]] = {action.value: _RULES[action] for action in BuiltIn}
