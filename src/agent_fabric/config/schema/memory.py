"""Documents and facts that agents look up."""

from typing import Annotated, Literal

from pydantic import BeforeValidator

from agent_fabric.config.schema.values import Settings


def _said_plainly(value: object) -> object:
    """Take `false` for off: in YAML, `off` means just that."""
    return "off" if value is False else value


class MemoryConfig(Settings):
    """What agents may remember."""

    learning: Annotated[Literal["off", "review", "auto"], BeforeValidator(_said_plainly)] = "review"
    """Whether runs may propose facts: `off`, `review` (a person accepts each of them), or `auto` (a person's own words
    are taken without a review, in runs that have read nothing untrusted)."""
    sessions: bool = True
    """Whether turns of sessions are told what documents and facts of their owner say about the question."""
