"""What a pack gives to a run: a prompt, tools, and what a finished task must look like."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fabric.domain.ids import SpecialistId
from agent_fabric.domain.tools import FINISH_TASK, Effect, ToolSpec

STEPS = SpecialistId("(steps)")
"""The pack that has the tools of a workflow's steps. No configuration can use the name, and no task recruits it."""


CHANGED, CHECKED = "changed", "checked"
"""Keys of a result that the engine compares with the log: files that were changed, commands that have succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishSpec:
    """How a task may end."""

    parameters: Mapping[str, Any]
    """JSON schema of the finish payload."""
    description: str = "Call this when the whole task is done. Its arguments are the result."
    needs_proof: bool = False
    """Changed files need a successful test, build or run command after the last change."""
    needs_citations: bool = False
    """What the result cites must have been fetched in this run, and what it quotes must stand there."""

    def as_tool(self) -> ToolSpec:
        """Return `finish_task` as the model sees it."""
        return ToolSpec(
            name=FINISH_TASK, description=self.description, parameters=self.parameters, effect=Effect.IDEMPOTENT
        )
