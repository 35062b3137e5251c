"""Finding earlier runs."""

from pydantic import BaseModel

from agent_fabric.config.schema.values import SETTINGS, BaseAddress, Text


class RunIndexConfig(BaseModel):
    """How earlier runs are searched."""

    model_config = SETTINGS

    embedding_model: Text | None = None
    """Model that turns text into vectors, for search by meaning; not set: search by words."""
    embedding_base_url: BaseAddress | None = None
    """Address of the server that has this model."""
