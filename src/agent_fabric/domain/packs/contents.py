"""What a pack gives to a run: a prompt, tools, and what a finished task must look like."""

from collections.abc import Mapping
from typing import Any

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import SpecialistId
from agent_fabric.domain.tools.specs import FINISH_TASK, Effect, ToolSpec

STEPS = SpecialistId("(steps)")
"""The pack that has the tools of a workflow's steps. No configuration can use the name, and no task recruits it."""


ARTIFACTS, DELIVERABLES, NEXT_STEPS = "artifacts", "deliverables", "next_steps"
"""Keys of a result: files that were made, also of research, and what a person should do next."""
CHANGED, CHECKED = "changed", "checked"
"""Keys of a result that the engine compares with the log: files that were changed, commands that have succeeded."""


def texts_under(payload: Mapping[str, Any], key: str) -> list[str]:
    """Return the texts that a result lists under a key. A model may have written anything there."""
    listed = payload.get(key)
    found = listed if isinstance(listed, list | tuple) else ()
    return [text for text in found if isinstance(text, str) and text.strip()]


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
    needs_reading_back: bool = False
    """A change on a machine needs a later call that has read the state there."""
    left_out: tuple[str, ...] = ()
    """Fields of the result that a small model is not asked for: they are filled from what the run has done."""
    require_proof: bool = False
    """The run fails where nothing bears its result out, also where its task does not say so."""

    @property
    def asks_for_proof(self) -> bool:
        """Tell whether its results are held against anything."""
        return self.needs_proof or self.needs_citations or self.needs_reading_back

    def as_tool(self) -> ToolSpec:
        """Return `finish_task` as the model sees it."""
        return ToolSpec(
            name=FINISH_TASK, description=self.description, parameters=self.parameters, effect=Effect.IDEMPOTENT
        )
