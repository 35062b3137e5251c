"""Names outside a definition file that its check needs: agents, workflows, actions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_fabric.domain.definitions.parameter import Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentShape:
    """What an agent takes and gives."""

    inputs: Mapping[str, Parameter] = field(default_factory=dict)
    outputs: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """Names that a definition may use. None: they are not known, so they are not checked."""

    agents: Mapping[str, AgentShape] | None = None
    workflows: frozenset[str] | None = None
    actions: frozenset[str] = frozenset()
    """Actions that packages bring."""
