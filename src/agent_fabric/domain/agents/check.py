"""The description of an agent's file, from which the JSON Schema is made, and what is wrong with one, all at once."""

import re
from collections.abc import Mapping
from typing import Any, Final

from agent_fabric.domain.agents.definition import FIRST_VERSION, AgentRole, Dependency, DependencyKind
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.declarations import PARAMETERS, declared_parameters
from agent_fabric.domain.definitions.expressions.references import check_syntax, references
from agent_fabric.domain.definitions.fields import (
    ANYTHING,
    FLAG,
    VERSION,
    Either,
    Field,
    Group,
    Items,
    Leaf,
    amount,
    name_hint,
    one_of,
    optional,
    schema_of_file,
    seconds,
    text,
    texts,
    whole,
)
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.definitions.problems import CheckPosition, Problem, ProblemCollector, did_you_mean, show_value
from agent_fabric.domain.definitions.validate import check_kind, is_plain
from agent_fabric.domain.models.messages import MAX_COST
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
        "max_cost": optional(amount(MAX_COST), "What the answers of models with a price may cost together."),
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
        "skills": optional(
            Items(lambda: _ANY_TEXT, "skills", "Write skills: [release-notes]"), "Skills that it is offered, by name."
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


_PROMPT_NAMES = frozenset({"inputs", "agent", "steps", "workflow"})
"""What prompts can refer to; the last two in workflows only."""
_CAN_USE = "Prompts can use `inputs.NAME`, and in a workflow `steps.ID.OUTPUT` and `workflow.inputs.NAME`."
_TOOLS = frozenset(tool for each in CAPABILITIES.values() for tool in each.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownToAgents:
    """What an agent can refer to; None: unknown here, so it is not checked."""

    packs: frozenset[str] | None = None
    models: frozenset[str] | None = None
    servers: frozenset[str] | None = None
    agents: frozenset[str] | None = None


def problems_in_agent(plain: object, known: KnownToAgents) -> list[Problem]:
    """Return what must be changed before this can be an agent; an empty list means nothing.

    At most fifty problems are named; one more entry then tells how many are left.
    """
    findings = ProblemCollector()
    if not is_plain(plain, findings):
        return findings.all()
    if not isinstance(plain, dict):
        findings.add(
            CheckPosition(), f"an agent must be a mapping, not {show_value(plain)}", "Begin with `name: my-agent`."
        )
        return findings.all()
    check_kind(plain, AGENT, CheckPosition(), findings)
    inputs = declared_parameters(plain.get("inputs"), CheckPosition(("inputs",)), findings)
    declared_parameters(plain.get("outputs"), CheckPosition(("outputs",)), findings)
    _Names(plain, known, findings).check()
    _check_prompts(plain, inputs, findings)
    return findings.all()


@dataclass(frozen=True, slots=True)
class _Names:
    """The check of all names that a definition refers to."""

    plain: Mapping[str, Any]
    known: KnownToAgents
    findings: ProblemCollector

    def check(self) -> None:
        name = self.plain.get("name")
        if isinstance(name, str) and name in (self.known.packs or ()):
            self.findings.add(CheckPosition(("name",)), f"name: {name!r} is the name of a pack", "Choose another name.")
        self._require(self.plain.get("pack"), self.known.packs, CheckPosition(("pack",)), "pack")
        self._require(self.plain.get("model"), self.known.models, CheckPosition(("model",)), "model")
        for nth, each in enumerate(self._items("capabilities")):
            if isinstance(each, str) and each.startswith(SERVER_PREFIX):
                server = each.removeprefix(SERVER_PREFIX)
                self._require(server, self.known.servers, CheckPosition(("capabilities", nth)), "tool server")
        for nth, each in enumerate(self._items("dependencies")):
            self._check_dependency(each, CheckPosition(("dependencies", nth)))

    def _items(self, key: str) -> list[Any]:
        value = self.plain.get(key)
        return value if isinstance(value, list) else []

    def _check_dependency(self, plain: Any, place: CheckPosition) -> None:
        if isinstance(plain, dict):
            names = [plain[key] for key in plain if key == "name" or key in list(DependencyKind)]
            if len(names) != 1:
                self.findings.add(place, f"{place.name} must name one thing", "Split it into several entries.")
            if len(names) != 1 or not isinstance(names[0], str) or not names[0]:
                return
        elif not isinstance(plain, str) or (":" in plain and plain.partition(":")[0] not in list(DependencyKind)):
            return
        dependency = Dependency.from_plain(plain)
        if dependency.kind is DependencyKind.AGENT and dependency.name == self.plain.get("name"):
            self.findings.add(place, f"{place.name}: an agent cannot need itself")
        elif not dependency.optional:
            there = {
                DependencyKind.AGENT: self.known.agents,
                DependencyKind.PACK: self.known.packs,
                DependencyKind.TOOL: _TOOLS,
                DependencyKind.SERVER: self.known.servers,
            }
            self._require(dependency.name, there[dependency.kind], place, str(dependency.kind))

    def _require(self, name: object, known: frozenset[str] | None, place: CheckPosition, what: str) -> None:
        if known is not None and name and isinstance(name, str) and name not in known:
            otherwise = f"There is none of that name; known: {', '.join(sorted(known)) or 'none'}."
            hint = self.findings.did_you_mean(name, sorted(known), otherwise=otherwise)
            self.findings.add(place, f"{place.name}: there is no {what} {name!r}", hint)


def _check_prompts(plain: Mapping[str, Any], inputs: Mapping[str, Parameter], findings: ProblemCollector) -> None:
    prompts = plain.get("prompts") or {}
    if not isinstance(prompts, dict):
        return
    if not prompts.get("system") and not plain.get("pack"):
        hint = "Say who the agent is and how it works; in a Markdown file, below the front matter."
        findings.add(CheckPosition(("prompts", "system")), "prompts.system: the system prompt is missing", hint)
    for key in ("system", "user"):
        if isinstance(text := prompts.get(key), str):
            _check_template(text, CheckPosition(("prompts", key)), inputs, findings)


def _check_template(
    text: str, place: CheckPosition, inputs: Mapping[str, Parameter], findings: ProblemCollector
) -> None:
    wrong = check_syntax(text)
    for message in wrong:
        findings.add(place, f"{place.name}: {message}")
    for reference in () if wrong else references(text):
        first, *rest = reference.path
        if reference.guarded:
            continue
        if first == "inputs" and rest and rest[0] not in inputs:
            hint = findings.did_you_mean(str(rest[0]), sorted(inputs), otherwise="Declare it under `inputs`.")
            findings.add(place, f"{place.name}: there is no input {rest[0]!r}", hint)
        elif first not in _PROMPT_NAMES:
            hint = f"Did you mean `inputs.{first}`?" if first in inputs else _CAN_USE
            findings.add(place, f"{place.name}: {first!r} is not known here", hint)
