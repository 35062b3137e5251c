"""What is started by itself."""

from pydantic import Field

from agent_fabric.config.schema.values import Settings, Text


class AutomationConfig(Settings):
    """Schedules and other triggers."""

    enabled: bool = True
    """Whether `fabric serve` fires schedules and arms the triggers of workflows."""
    timezone: Text = "UTC"
    """The time zone of schedules that name none, such as `Europe/Berlin`."""
    look_every_s: float = Field(default=0.5, ge=0.05, le=60)
    """How often is looked for what is due."""
