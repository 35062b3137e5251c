"""What an agent is: a named way of working, with declared inputs and outputs, as its file tells it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.workflows.definition import parameter_from

FIRST_VERSION = "1.0.0"


class AgentRole(StrEnum):
    """What an agent is there for; said to people, and nothing more."""

    ORCHESTRATOR = "orchestrator"
    DIRECTOR = "director"
    WORKER = "worker"
    REVIEWER = "reviewer"
    RESEARCHER = "researcher"
    VALIDATOR = "validator"


class DependencyKind(StrEnum):
    """What can be needed."""

    AGENT = "agent"
    PACK = "pack"
    TOOL = "tool"
    SERVER = "mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """Something that must be there for the agent to work."""

    name: str
    kind: DependencyKind = DependencyKind.AGENT
    optional: bool = False
    purpose: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What a good answer looks like."""

    input: Any
    output: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """What the model is told; templates over `inputs` and `agent`."""

    system: str = ""
    user: str = ""
    """Empty: the inputs, one after another."""
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """How far one run of the agent may go."""

    max_tokens: int | None = None
    timeout_s: float | None = None
    retries: int = 0
    parallel_allowed: bool = True
    command_allowlist: tuple[str, ...] = ()
    path_allowlist: tuple[str, ...] = ()
    domain_allowlist: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """A named agent."""

    name: str
    version: str = FIRST_VERSION
    role: AgentRole = AgentRole.WORKER
    description: str = ""
    capabilities: tuple[str, ...] = ()
    """What it may do; see `capabilities`. None: it has no tools."""
    inputs: Mapping[str, Parameter] = field(default_factory=dict)
    outputs: Mapping[str, Parameter] = field(default_factory=dict)
    """What it must give at its end; none: a `summary`."""
    dependencies: tuple[Dependency, ...] = ()
    prompts: Prompts = Prompts()
    constraints: Constraints = Constraints()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    pack: str = ""
    """The pack whose prompt, tools and rules it builds on; empty: none."""
    model: str = ""
    """The configured model that it uses; empty: the usual one."""


def agent_from(plain: Mapping[str, Any]) -> AgentDefinition:
    """Return the agent that a sound definition describes; what comes from people is checked first (see `check`)."""
    return AgentDefinition(
        name=plain["name"],
        version=plain.get("version") or FIRST_VERSION,
        role=AgentRole(plain.get("role") or AgentRole.WORKER),
        description=plain.get("description") or "",
        capabilities=tuple(dict.fromkeys(plain.get("capabilities") or ())),
        inputs={name: parameter_from(each) for name, each in (plain.get("inputs") or {}).items()},
        outputs={name: _output(each) for name, each in (plain.get("outputs") or {}).items()},
        dependencies=tuple(dependency_from(each) for each in plain.get("dependencies") or ()),
        prompts=_prompts(plain.get("prompts") or {}),
        constraints=_constraints(plain.get("constraints") or {}),
        metadata=plain.get("metadata") or {},
        pack=plain.get("pack") or "",
        model=plain.get("model") or "",
    )


def dependency_from(plain: Mapping[str, Any] | str) -> Dependency:
    """Return what a sound definition needs: `name`, `kind:name`, or a mapping."""
    if isinstance(plain, str):
        kind, colon, name = plain.partition(":")
        return Dependency(name=name, kind=DependencyKind(kind)) if colon else Dependency(name=plain)
    kind = next((each for each in DependencyKind if each in plain), DependencyKind.AGENT)
    return Dependency(
        name=plain.get(kind) or plain["name"],
        kind=kind,
        optional=bool(plain.get("optional", False)),
        purpose=plain.get("purpose") or "",
    )


def _output(plain: Mapping[str, Any] | str) -> Parameter:
    """What an agent declares it must give, unless it says that it need not."""
    optional = isinstance(plain, Mapping) and (plain.get("required") is False or "default" in plain)
    return replace(parameter_from(plain), required=not optional)


def _prompts(plain: Mapping[str, Any]) -> Prompts:
    return Prompts(
        system=plain.get("system") or "",
        user=plain.get("user") or "",
        examples=_examples(plain.get("examples") or ()),
    )


def _examples(plain: Sequence[Mapping[str, Any]]) -> tuple[Example, ...]:
    return tuple(Example(input=each.get("input", ""), output=each["output"]) for each in plain)


def _constraints(plain: Mapping[str, Any]) -> Constraints:
    timeout = plain.get("timeout")
    return Constraints(
        max_tokens=plain.get("max_tokens"),
        timeout_s=None if timeout is None else float(timeout),
        retries=plain.get("retries") or 0,
        parallel_allowed=plain.get("parallel_allowed") is not False,
        command_allowlist=tuple(plain.get("command_allowlist") or ()),
        path_allowlist=tuple(plain.get("path_allowlist") or ()),
        domain_allowlist=tuple(plain.get("domain_allowlist") or ()),
    )
