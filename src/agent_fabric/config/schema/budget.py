"""How much a run may use."""

from pydantic import Field

from agent_fabric.config.schema.values import Settings


class BudgetConfig(Settings):
    """What one run may use before it is stopped."""

    max_steps: int = Field(default=40, ge=1, le=1000)
    """Model answers in one run."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens read and written, all turns together; not set: no limit."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Seconds spent in model and tool calls; waiting is free. Not set: no limit."""
    max_calls_per_turn: int = Field(default=64, ge=1, le=1000)
    """Tool calls that are run of one model answer. The others are not; the model is told so."""
