"""The box around commands: how strong it must be, and how much fits into it."""

from typing import Literal, Self

from pydantic import Field, model_validator

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.values import SECTION, Settings, Text, Texts


class SandboxLimits(Settings):
    """How much the commands of one run may use. How long one may take is `shell.timeout_s`."""

    processes: int = Field(default=256, ge=8, le=100_000)
    """Processes and threads at once."""
    memory_mb: int = Field(default=2048, ge=64)
    """Memory of one process."""
    total_memory_mb: int = Field(default=2560, ge=64)
    """Memory of all processes together."""
    file_size_mb: int = Field(default=512, ge=1)
    """Size of one file."""
    total_disk_mb: int = Field(default=1024, ge=1)
    """What a run may add to its workspace, all files together; its private /tmp may hold as much again."""
    files: int = Field(default=500_000, ge=100)
    """Files and folders that a run may make or change in its workspace."""
    depth: int = Field(default=100, ge=10, le=200)
    """Levels of folders in a workspace."""


class SandboxConfig(Settings):
    """The box in which a run's commands are kept."""

    level: Literal["auto", "A", "A+", "B", "C"] = "auto"
    """`auto`: the strongest that works here. One that is named and does not work is an error, never lowered."""
    uid: int = Field(default=64_000, ge=1, lt=2**32 - 1)
    """The user that commands run as when fabric itself was started as root. Commands never run as root."""
    limits: SandboxLimits = SECTION
    """How much the commands of one run may use."""
    image: Text | None = None
    """The container image of level `A+`. A specialist's own `container_image` goes before it."""
    container_engine: Texts = ()
    """The command that starts containers, with its general options; not set: podman, else docker."""

    @model_validator(mode="after")
    def _a_container_has_an_image(self) -> Self:
        if self.level == "A+" and self.image is None:
            raise ConfigProblem("level A+ needs `image`: the container image in which commands run")
        return self
