"""Documents and facts that agents look up."""

from typing import Annotated, Literal

from agent_fabric.config.schema.declared import Settings
from agent_fabric.config.schema.values import YAML_OFF


class MemoryConfig(Settings):
    """What agents may remember."""

    learning: Annotated[Literal["off", "review", "auto"], YAML_OFF] = "review"
    """Whether runs may propose facts: `off`, `review` (a person accepts each of them), or `auto` (a person's own words
    are taken without a review, in runs that have read nothing untrusted)."""
    sessions: bool = True
    """Whether turns of sessions are told what documents and facts of their owner say about the question."""
