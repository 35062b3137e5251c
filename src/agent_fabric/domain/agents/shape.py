"""The description of an agent's file; the check and the JSON Schema are both made from it."""

import re
from typing import Any, Final

from agent_fabric.domain.agents.definition import FIRST_VERSION, AgentRole, DependencyKind
from agent_fabric.domain.definitions.declarations import PARAMETERS
from agent_fabric.domain.definitions.fields import (
    ANYTHING,
    FLAG,
    VERSION,
    Either,
    Field,
    Group,
    Items,
    Leaf,
    name_hint,
    one_of,
    optional,
    schema_of_file,
    seconds,
    text,
    texts,
    whole,
)
from agent_fabric.domain.definitions.problems import did_you_mean
from agent_fabric.domain.tools.capabilities import CAPABILITIES, SERVER_PREFIX

MAX_EXAMPLES: Final = 50
MAX_RETRIES: Final = 10
_NAME: Final = re.compile(r"(?=.{1,64}$)[a-z][a-z0-9]*(?:-[a-z0-9]+)*", re.ASCII)
_DEPENDENCY_HINT: Final = (
    "Write a name, `pack:NAME`, `tool:NAME`, `mcp:NAME`, or a mapping such as `{agent: NAME, optional: true}`."
)
_ANY_TEXT: Final = text(least=0, most=10_000_000)


def _is_capability(value: object) -> bool:
    return isinstance(value, str) and (value in CAPABILITIES or value.startswith(SERVER_PREFIX))


def _capability_hint(value: object) -> str:
    every = f"Capabilities: {', '.join(CAPABILITIES)}, and {SERVER_PREFIX}NAME for a tool server."
    return f"{did_you_mean(str(value), CAPABILITIES, otherwise=' ')} {every}".strip()


def _is_dependency(value: object) -> bool:
    kind, colon, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    return bool(name and kind in list(DependencyKind)) if colon else bool(kind)


_CAPABILITY: Final = Leaf(
    "a capability",
    {
        "anyOf": [
            {"oneOf": [{"const": name, "description": each.description} for name, each in CAPABILITIES.items()]},
            {"type": "string", "pattern": f"^{SERVER_PREFIX}.+$"},
        ]
    },
    _is_capability,
    _capability_hint,
)

_NEEDED: Final = Leaf(
    "something that can be needed", {"type": "string", "minLength": 1}, _is_dependency, _DEPENDENCY_HINT
)

_HOST: Final = text(
    "a host such as example.org",
    pattern=re.compile(r"[A-Za-z0-9*?_.-]{1,253}", re.ASCII),
    hint="Write no https://, no port and no path.",
)


def _allowlist(kind: Leaf, what: str, doc: str) -> Field:
    return optional(Items(lambda: kind, what, most=1_000), doc)


DEPENDENCY: Final = Group(
    "dependency",
    "Something that must be there.",
    {
        **{kind.value: Field(text(), f"Its name, as {kind.name.lower()}.") for kind in DependencyKind},
        "name": Field(text(), "Its name, as agent."),
        "optional": Field(FLAG, "The agent works without it, too.", default=False),
        "purpose": optional(_ANY_TEXT, "What it is for, for people."),
    },
)

EXAMPLE: Final = Group(
    "example",
    "What a good answer looks like.",
    {
        "input": optional(ANYTHING, "What is given."),
        "output": Field(ANYTHING, "What it answers.", "output: …", nullable=True),
    },
)

PROMPTS: Final = Group(
    "prompts",
    "What the model is told; templates over `inputs` and `agent`.",
    {
        "system": optional(_ANY_TEXT, "Who it is and how it works; a template."),
        "user": optional(_ANY_TEXT, "What it is asked; a template. Not set: its inputs."),
        "examples": optional(Items(lambda: EXAMPLE, "examples", most=MAX_EXAMPLES), "Good answers."),
    },
)

CONSTRAINTS: Final = Group(
    "constraints",
    "How far one run may go.",
    {
        "max_tokens": optional(whole(1), "Tokens of one run, in and out."),
        "timeout": optional(seconds(above_zero=True), "Seconds in model and tool calls."),
        "retries": optional(whole(0, MAX_RETRIES), "Further attempts after a failure."),
        "parallel_allowed": optional(FLAG, "Whether several runs of it may work at the same time.", True),
        "command_allowlist": _allowlist(text(), "programs", "The only programs that its commands may start."),
        "path_allowlist": _allowlist(text(), "paths", "The only files and folders that it may use: docs/**, *.md."),
        "domain_allowlist": _allowlist(_HOST, "hosts", "The only hosts that it may reach, with all below them."),
    },
)

METADATA: Final = Group(
    "metadata",
    "For people; other keys are yours.",
    {
        **{key: Field(_ANY_TEXT, "For people.") for key in ("author", "created", "updated")},
        "tags": Field(texts("words", "tags: [writing]"), "Words to find it by."),
    },
    open=True,
)

AGENT: Final = Group(
    "agent",
    "An agent of agent-fabric: a named way of working, with declared inputs and outputs.",
    {
        "name": Field(
            text("a name of small letters and digits, with - between", pattern=_NAME, hint=name_hint),
            "Unique, in small letters: release-notes.",
            "name: my-agent",
        ),
        "version": optional(VERSION, "Its version (semver).", FIRST_VERSION),
        "role": optional(one_of(AgentRole), "What it is there for.", AgentRole.WORKER),
        "description": optional(_ANY_TEXT, "What it does, in a sentence."),
        "capabilities": optional(
            Items(lambda: _CAPABILITY, "capabilities", f"Write capabilities: [{next(iter(CAPABILITIES))}]"),
            "What it may do; its tools follow from this. None: it has no tools.",
        ),
        "inputs": optional(PARAMETERS, "What it is given; prompts use {{ inputs.NAME }}."),
        "outputs": optional(PARAMETERS, "What it must give at its end; none: a summary."),
        "dependencies": optional(
            Items(lambda: Either(_NEEDED, DEPENDENCY, _DEPENDENCY_HINT), "dependencies", _DEPENDENCY_HINT),
            "What must be there.",
        ),
        "prompts": optional(PROMPTS, "What the model is told."),
        "constraints": optional(CONSTRAINTS, "How far one run may go."),
        "metadata": optional(METADATA, "For people; other keys are yours."),
        "pack": optional(_ANY_TEXT, "The pack whose prompt, tools and rules it builds on."),
        "model": optional(_ANY_TEXT, "The key of a configured model; not set: the usual one."),
    },
)


def agent_schema() -> dict[str, Any]:
    """Return the JSON Schema. What it cannot say, such as which packs there are, `fabric agents validate` does."""
    return schema_of_file("Agent", AGENT)
