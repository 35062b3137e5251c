"""The commands that a run may start."""

from pydantic import BaseModel, Field

from agent_fabric.config.constants import SHELL_DEFAULT_TIMEOUT_S
from agent_fabric.config.schema.values import SETTINGS, Texts


class ShellConfig(BaseModel):
    """What the shell tool allows."""

    model_config = SETTINGS

    allowed_commands: Texts | None = None
    """The programs that commands may start; not set: the built-in list."""
    extra_commands: Texts = ()
    """Programs allowed in addition to that list."""
    timeout_s: float = Field(default=SHELL_DEFAULT_TIMEOUT_S, gt=0, le=86_400)
    """How long one command may run."""
