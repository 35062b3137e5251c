"""How much a run may use."""

from pydantic import BaseModel, Field

from agent_fabric.config.schema.values import SETTINGS


class BudgetConfig(BaseModel):
    """What one run may use before it is stopped."""

    model_config = SETTINGS

    max_steps: int = Field(default=40, ge=1, le=1000)
    """Model answers in one run."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens read and written, all turns together; not set: no limit."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Seconds spent in model and tool calls; waiting is free. Not set: no limit."""
