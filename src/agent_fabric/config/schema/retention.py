"""What a server takes away by itself."""

from pydantic import Field

from agent_fabric.config.schema.values import Settings


class RetentionConfig(Settings):
    """What `fabric serve` takes away by itself, once a day."""

    older_than_days: float | None = Field(default=None, gt=0)
    """Runs that settled longer ago are removed as `fabric gc` does, each with a tombstone; not set: none is."""
    keep: int = Field(default=0, ge=0)
    """Of these, so many of the newest stay."""
    backups: int | None = Field(default=None, ge=1)
    """So many of the newest backups stay in `.fabric/backups`; not set: all of them."""
