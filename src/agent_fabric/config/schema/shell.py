"""The commands that a run may start."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from agent_fabric.config.constants import SHELL_DEFAULT_TIMEOUT_S
from agent_fabric.config.schema.values import Settings, Texts


def _off(value: Any) -> Any:
    return "off" if value is False else value  # what YAML makes of the word `off`


class ShellConfig(Settings):
    """What the shell tool allows."""

    allowed_commands: Texts | None = None
    """The programs that commands may start; not set: the built-in list."""
    extra_commands: Texts = ()
    """Programs allowed in addition to that list."""
    timeout_s: float = Field(default=SHELL_DEFAULT_TIMEOUT_S, gt=0, le=86_400)
    """How long one command may run."""
    network: Annotated[Literal["off", "allowlist"], BeforeValidator(_off)] = "off"
    """Whether commands may use the network: `off`, not at all; `allowlist`, only to reach the hosts under `egress`."""
