"""What a run keeps of the agent that does it: everything it needs, so that the agent's file may change or go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_fabric.domain.tools.allowlists import Allowlists


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentBrief:
    """An agent made ready for one run: templates filled in, inputs checked."""

    name: str
    version: str
    system_prompt: str
    """How it works. With a pack, what is said after the pack's own prompt."""
    prompt: str
    """What it is asked: the first user message."""
    finish: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema of the result; empty: that of the pack."""
    capabilities: tuple[str, ...] = ()
    """What its tools come from; see `capabilities`."""
    pack: str = ""
    """The pack that it builds on; empty: none."""
    max_tokens: int | None = None
    timeout_s: float | None = None
    retries: int = 0
    """How often its caller may try again after a failure."""
    parallel_allowed: bool = True
    """Whether several runs of it may be under way at once."""
    model_key: str = ""
    """The model that it asks for; empty: the usual one."""
    command_allowlist: tuple[str, ...] = ()
    """The only programs that its commands may start; empty: not limited."""
    path_allowlist: tuple[str, ...] = ()
    """The only files and folders that it may use; empty: not limited."""
    domain_allowlist: tuple[str, ...] = ()
    """The only hosts that it may reach; empty: not limited."""

    @property
    def limits(self) -> tuple[Allowlists, ...]:
        """The allowlists of the agent's file, if it has any."""
        lists = Allowlists(
            commands=self.command_allowlist,
            paths=self.path_allowlist,
            domains=self.domain_allowlist,
            owner=f"the agent {self.name}",
        )
        return (lists,) if lists else ()
