"""The model inside agent-fabric."""

from pydantic import Field

from agent_fabric.config.schema.values import Settings


class EmbeddedConfig(Settings):
    """How the embedded model is run. All runs of a user share its process."""

    idle_s: float = Field(default=300.0, ge=1, le=86_400)
    """How long the process stays loaded after its last use."""
    context_window: int = Field(default=8192, ge=1024, le=131_072)
    """How many tokens fit, prompt and answer together, for each request that is served at once."""
    slots: int = Field(default=1, ge=1, le=64)
    """How many requests are served at once. Each takes memory and a share of the speed."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """How many processor cores it may use. Not set: all that this process may use."""
