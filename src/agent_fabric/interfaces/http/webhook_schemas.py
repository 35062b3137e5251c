"""The shape of what senders of webhooks are told."""

from pydantic import BaseModel, ConfigDict


class Accepted(BaseModel):
    """A delivery has been taken."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    delivery: str
    """What it is called here; the same when it is delivered again."""
    run_id: str | None
    """The run of the workflow that it started; null if it starts none."""
    repeated: bool
    """Whether it had been delivered before; then nothing followed from it this time."""
