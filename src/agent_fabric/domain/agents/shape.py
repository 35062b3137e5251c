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
    seconds,
    text,
    texts,
    whole,
)
from agent_fabric.domain.definitions.problems import did_you_mean
from agent_fabric.domain.definitions.schema import DRAFT, group_schema
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
    words="a capability",
    schema={
        "anyOf": [
            {"oneOf": [{"const": name, "description": each.description} for name, each in CAPABILITIES.items()]},
            {"type": "string", "pattern": f"^{SERVER_PREFIX}.+$"},
        ]
    },
    fits=_is_capability,
    hint=_capability_hint,
)

_HOST: Final = text(
    "a host such as example.org",
    pattern=re.compile(r"[A-Za-z0-9*?_.-]{1,253}", re.ASCII),
    hint="Write no https://, no port and no path.",
)


def _allowlist(kind: Leaf, what: str, doc: str) -> Field:
    return Field(kind=Items(of=lambda: kind, what=what, most=1_000), doc=doc, nullable=True)


DEPENDENCY: Final = Group(
    name="dependency",
    doc="Something that must be there.",
    fields={
        **{kind.value: Field(kind=text(), doc=f"Its name, as {kind.name.lower()}.") for kind in DependencyKind},
        "name": Field(kind=text(), doc="Its name, as agent."),
        "optional": Field(kind=FLAG, doc="The agent works without it, too.", default=False),
        "purpose": Field(kind=_ANY_TEXT, doc="What it is for, for people.", nullable=True),
    },
)

EXAMPLE: Final = Group(
    name="example",
    doc="What a good answer looks like.",
    fields={
        "input": Field(kind=ANYTHING, doc="What is given.", nullable=True),
        "output": Field(kind=ANYTHING, doc="What it answers.", nullable=True, required=True, example="output: …"),
    },
)

PROMPTS: Final = Group(
    name="prompts",
    doc="What the model is told; templates over `inputs` and `agent`.",
    fields={
        "system": Field(kind=_ANY_TEXT, doc="Who it is and how it works; a template.", nullable=True),
        "user": Field(kind=_ANY_TEXT, doc="What it is asked; a template. Not set: its inputs.", nullable=True),
        "examples": Field(
            kind=Items(of=lambda: EXAMPLE, what="examples", most=MAX_EXAMPLES), doc="Good answers.", nullable=True
        ),
    },
)

CONSTRAINTS: Final = Group(
    name="constraints",
    doc="How far one run may go.",
    fields={
        "max_tokens": Field(kind=whole(1), doc="Tokens of one run, in and out.", nullable=True),
        "timeout": Field(kind=seconds(above_zero=True), doc="Seconds in model and tool calls.", nullable=True),
        "retries": Field(kind=whole(0, MAX_RETRIES), doc="Further attempts after a failure.", nullable=True),
        "parallel_allowed": Field(
            kind=FLAG, doc="Whether several runs of it may work at the same time.", default=True, nullable=True
        ),
        "command_allowlist": _allowlist(text(), "programs", "The only programs that its commands may start."),
        "path_allowlist": _allowlist(text(), "paths", "The only files and folders that it may use: docs/**, *.md."),
        "domain_allowlist": _allowlist(_HOST, "hosts", "The only hosts that it may reach, with all below them."),
    },
)

METADATA: Final = Group(
    name="metadata",
    doc="For people; other keys are yours.",
    open=True,
    fields={
        **{key: Field(kind=_ANY_TEXT, doc="For people.") for key in ("author", "created", "updated")},
        "tags": Field(kind=texts("words", "tags: [writing]"), doc="Words to find it by."),
    },
)

AGENT: Final = Group(
    name="agent",
    doc="An agent of agent-fabric: a named way of working, with declared inputs and outputs.",
    fields={
        "name": Field(
            kind=text("a name of small letters and digits, with - between", pattern=_NAME, hint=name_hint),
            doc="Unique, in small letters: release-notes.",
            required=True,
            example="name: my-agent",
        ),
        "version": Field(kind=VERSION, doc="Its version (semver).", default=FIRST_VERSION, nullable=True),
        "role": Field(kind=one_of(AgentRole), doc="What it is there for.", default=AgentRole.WORKER, nullable=True),
        "description": Field(kind=_ANY_TEXT, doc="What it does, in a sentence.", nullable=True),
        "capabilities": Field(
            kind=Items(
                of=lambda: _CAPABILITY, what="capabilities", hint=f"Write capabilities: [{next(iter(CAPABILITIES))}]"
            ),
            doc="What it may do; its tools follow from this. None: it has no tools.",
            nullable=True,
        ),
        "inputs": Field(kind=PARAMETERS, doc="What it is given; prompts use {{ inputs.NAME }}.", nullable=True),
        "outputs": Field(kind=PARAMETERS, doc="What it must give at its end; none: a summary.", nullable=True),
        "dependencies": Field(
            kind=Items(
                of=lambda: Either(
                    short=Leaf(
                        words="something that can be needed",
                        schema={"type": "string", "minLength": 1},
                        fits=_is_dependency,
                        hint=_DEPENDENCY_HINT,
                    ),
                    full=DEPENDENCY,
                    hint=_DEPENDENCY_HINT,
                ),
                what="dependencies",
                hint=_DEPENDENCY_HINT,
            ),
            doc="What must be there.",
            nullable=True,
        ),
        "prompts": Field(kind=PROMPTS, doc="What the model is told.", nullable=True),
        "constraints": Field(kind=CONSTRAINTS, doc="How far one run may go.", nullable=True),
        "metadata": Field(kind=METADATA, doc="For people; other keys are yours.", nullable=True),
        "pack": Field(kind=_ANY_TEXT, doc="The pack whose prompt, tools and rules it builds on.", nullable=True),
        "model": Field(kind=_ANY_TEXT, doc="The key of a configured model; not set: the usual one.", nullable=True),
    },
)


def agent_schema() -> dict[str, Any]:
    """Return the JSON Schema. What it cannot say, such as which packs there are, `fabric agents validate` does."""
    return {"$schema": DRAFT, "title": "Agent", **group_schema(AGENT)}
