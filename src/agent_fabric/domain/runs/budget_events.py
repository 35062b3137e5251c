"""What happens to a run's budget; see `events` for the contract."""

from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExhausted:
    """The run has used what it may use."""

    kind: ClassVar = "budget_exhausted"

    resource: Literal["steps", "tokens", "seconds"]
    limit: float
    used: float
