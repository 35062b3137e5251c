"""Making a box of a level."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, assert_never

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.schema.sandbox import SandboxConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.sandbox.workspaces import require_elsewhere, require_workspace

Level = Literal["A", "A+", "B", "C"]
"""How strong a box is; see docs/operate/security.md."""


class Box(Sandbox, Protocol):
    """A Sandbox that can be ended."""

    async def aclose(self) -> None:
        """End the box and all that runs in it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a box is to know of the world around it."""

    hidden: Path | None = None
    """A folder that commands must never see: fabric's own."""
    egress_socket: Path | None = None
    """The unix socket of the proxy through which commands reach the network; None: they do not. Only level A has it."""
    commands: bool = True
    """Whether commands run at level C."""


# What makes boxes is imported when a box of its level is made: other runs would only pay for it.


def make_box(
    level: Level, workspace: Path, run_id: str, config: SandboxConfig, around: Surroundings | None = None
) -> Box:
    """Return a box of this level; nothing is started before its first command.

    Raises:
        ConfigError: this level cannot be had on this system, or not for this workspace.
    """
    require_workspace(workspace)
    around = around or Surroundings()
    if level != "A":  # which makes it read-only
        require_elsewhere(workspace)
    match level:
        case "A":
            return _bubblewrap(workspace, run_id, config, around)
        case "A+":
            return container_box(workspace, run_id, config, config.image, around)
        case "B":
            return _kernel_rules(workspace, run_id, config, around)
        case "C":
            return _unconfined_box(workspace, run_id, around)
        case unknown:
            assert_never(unknown)


def container_box(
    workspace: Path, run_id: str, config: SandboxConfig, image: str | None, around: Surroundings | None = None
) -> Box:
    """Return a box that is a container of this image.

    Raises:
        ConfigError: no image is named, or there is neither podman nor docker.
    """
    require_elsewhere(workspace)
    if image is None:
        raise ConfigError("Level A+ needs an image", hint="Set sandbox.image, or a specialist's container_image.")
    from agent_fabric.infrastructure.sandbox.podman import ContainerSandbox  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.sandbox.podman_engine import find_engine  # noqa: PLC0415 - see above

    return ContainerSandbox(
        workspace,
        run_id,
        image=image,
        engine=find_engine(config.container_engine),
        limits=config.limits,
        uid=config.uid,
        hidden=around.hidden if around else None,
    )


def _unconfined_box(workspace: Path, run_id: str, around: Surroundings) -> Box:
    from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox  # noqa: PLC0415 - see above

    return UnconfinedSandbox(workspace, run_id, commands=around.commands)


def _bubblewrap(workspace: Path, run_id: str, config: SandboxConfig, around: Surroundings) -> Box:
    if sys.platform != "linux":
        raise ConfigError("Level A needs Linux")
    from agent_fabric.infrastructure.sandbox.bubblewrap import BubblewrapSandbox  # noqa: PLC0415 - see above

    return BubblewrapSandbox(
        workspace,
        run_id,
        limits=config.limits,
        uid=config.uid,
        hidden=around.hidden,
        egress_socket=around.egress_socket,
    )


def _kernel_rules(workspace: Path, run_id: str, config: SandboxConfig, around: Surroundings) -> Box:
    if sys.platform == "darwin":
        from agent_fabric.infrastructure.sandbox.seatbelt import SeatbeltSandbox  # noqa: PLC0415 - see above

        return SeatbeltSandbox(workspace, run_id, hidden=around.hidden)
    if sys.platform != "linux":
        raise ConfigError("Level B needs Linux or macOS")
    from agent_fabric.infrastructure.sandbox import seccomp  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.sandbox.landlock import LandlockSandbox  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.sandbox.landlock_rules import landlock_version  # noqa: PLC0415 - see above

    if not landlock_version():
        raise ConfigError("This kernel has no Landlock", hint="Linux has it from 5.13 on, unless it is turned off.")
    if not seccomp.supported():
        raise ConfigError(f"There is no seccomp filter for {os.uname().machine}")
    return LandlockSandbox(workspace, run_id, limits=config.limits, uid=config.uid, hidden=around.hidden)
