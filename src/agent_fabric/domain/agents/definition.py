"""What an agent is: a named way of working, with declared inputs and outputs, as its file tells it."""

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, Self

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.deserialize import reader_of
from agent_fabric.domain.tools.capabilities import servers_of, tools_of

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

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any] | str) -> Self:
        """Return what a sound definition needs: `name`, `kind:name`, or a mapping."""
        if isinstance(plain, str):
            before, colon, name = plain.partition(":")
            return cls(name=name, kind=DependencyKind(before)) if colon else cls(name=plain)
        kind = next((each for each in DependencyKind if each in plain), DependencyKind.AGENT)
        return cls(
            name=plain.get(kind) or plain["name"],
            kind=kind,
            optional=bool(plain.get("optional", False)),
            purpose=plain.get("purpose") or "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What a good answer looks like."""

    input: Any = ""
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
    max_cost: float | None = None
    timeout_s: float | None = field(default=None, metadata={"key": "timeout"})
    retries: int = 0
    parallel_allowed: bool = True
    command_allowlist: tuple[str, ...] = ()
    path_allowlist: tuple[str, ...] = ()
    domain_allowlist: tuple[str, ...] = ()


def _read_outputs(plain: Mapping[str, Mapping[str, Any] | str]) -> Mapping[str, Parameter]:
    """Return what an agent must give, unless it says that it need not."""
    return {
        name: replace(
            Parameter.from_plain(each),
            required=isinstance(each, str) or (each.get("required") is not False and "default" not in each),
        )
        for name, each in plain.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """A named agent."""

    name: str
    version: str = FIRST_VERSION
    role: AgentRole = AgentRole.WORKER
    description: str = ""
    capabilities: tuple[str, ...] = field(default=(), metadata={"read": lambda plain: tuple(dict.fromkeys(plain))})
    """What it may do; see `capabilities`. None: it has no tools."""
    skills: tuple[str, ...] = ()
    """Skills that it is offered, by name."""
    inputs: Mapping[str, Parameter] = field(default_factory=dict)
    outputs: Mapping[str, Parameter] = field(default_factory=dict, metadata={"read": _read_outputs})
    """What it must give at its end; none: a `summary`."""
    dependencies: tuple[Dependency, ...] = ()
    prompts: Prompts = Prompts()
    constraints: Constraints = Constraints()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    pack: str = ""
    """The pack whose prompt, tools and rules it builds on; empty: none."""
    model: str = ""
    """The configured model that it uses; empty: the usual one."""

    @property
    def tools(self) -> frozenset[str]:
        """The tools that follow from its capabilities."""
        return tools_of(self.capabilities)

    @property
    def tool_servers(self) -> tuple[str, ...]:
        """The tool servers that follow from its capabilities."""
        return servers_of(self.capabilities)


def agent_from(plain: Mapping[str, Any]) -> AgentDefinition:
    """Return the agent that a sound definition describes; what comes from people is checked first (see `check`)."""
    agent: AgentDefinition = reader_of(AgentDefinition, of_file=True)(plain)
    return agent
