"""The most that a caller may ask of one run."""

from dataclasses import dataclass, replace
from typing import TypeVar

from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.plural import counted
from agent_fabric.domain.runs.task import Budget

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCaps:
    """Ends of what a run may use; None: none."""

    max_steps: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None

    def require(self, *, max_steps: int | None) -> None:
        """Check what a caller asks for explicitly.

        Raises:
            InvalidInputs: it is more than allowed.
        """
        if max_steps is not None and self.max_steps is not None and max_steps > self.max_steps:
            raise InvalidInputs(
                f"A run may take at most {counted(self.max_steps, 'step')} here, not {max_steps}",
                hint=f"Ask for {self.max_steps} or less, or for none. The limit is `limits.run.max_steps`.",
            )

    def lowered(self, budget: Budget) -> Budget:
        """Return a budget that goes no further than this."""
        return replace(
            budget,
            max_steps=budget.max_steps if self.max_steps is None else min(budget.max_steps, self.max_steps),
            max_tokens=_lower(budget.max_tokens, self.max_tokens),
            max_seconds=_lower(budget.max_seconds, self.max_seconds),
        )


def _lower(one: Number | None, other: Number | None) -> Number | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
