"""The boxes of all runs of this process."""

from dataclasses import replace
from pathlib import Path
from typing import Protocol

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.schema.sandbox import SandboxConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.sandbox.levels import SandboxChoice
from agent_fabric.infrastructure.sandbox.levels_boxes import Box, Surroundings, container_box, make_box


class WaysOut(Protocol):
    """Gives the box of a run a way to the network."""

    def socket_for(self, run_id: RunId) -> Path:
        """Return the unix socket of the proxy for a run's box. Never blocks."""
        ...

    async def close(self, run_id: RunId) -> None:
        """End a run's way out."""
        ...


class RunSandboxes:
    """Sandboxes of the level that was chosen; and containers, for packs that ask for one."""

    def __init__(
        self,
        choice: SandboxChoice,
        config: SandboxConfig,
        *,
        around: Surroundings | None = None,
        containers: bool = False,
        ways_out: WaysOut | None = None,
    ) -> None:
        """Make boxes as `choice` says.

        `containers` tells whether packs may ask for them, so that those of an earlier driver are looked for;
        `ways_out` gives the boxes of runs that may use the network a way to it.
        """
        self._ways_out = ways_out
        self._choice = choice
        self._config = config
        self._around = replace(around or Surroundings(), commands=choice.commands)
        self._containers = containers
        self._boxes: dict[RunId, dict[str | None, Box]] = {}

    @property
    def level(self) -> str:
        return self._choice.level

    @property
    def choice(self) -> SandboxChoice:
        """The level, and why."""
        return self._choice

    def for_run(self, run_id: RunId, workspace: str, *, network_allowed: bool) -> Sandbox:
        """Return the run's box: the same one for all its packs.

        Raises:
            ConfigError: this level cannot be had for this workspace.
        """
        boxes = self._boxes.setdefault(run_id, {})
        if None not in boxes:
            boxes[None] = self._make(run_id, workspace, network_allowed=network_allowed)
        return boxes[None]

    def container_for(self, run_id: RunId, workspace: str, image: str) -> Sandbox:
        """Return the run's container of this image.

        Raises:
            ConfigError: there is neither podman nor docker.
        """
        boxes = self._boxes.setdefault(run_id, {})
        if image not in boxes:
            boxes[image] = container_box(Path(workspace), run_id, self._config, image, self._around)
        return boxes[image]

    async def close(self, run_id: RunId) -> None:
        for box in self._boxes.pop(run_id, {}).values():
            await box.aclose()
        if self._ways_out is not None:
            await self._ways_out.close(run_id)

    async def end_leftovers(self, run_id: RunId, workspace: str) -> int:
        known = self._boxes.get(run_id, {}).get(None)
        ended = await (known or self._make(run_id, workspace)).end_leftovers()
        if self._containers and self.level != "A+":
            ended += await self._remove_containers(run_id)
        return ended

    async def aclose(self) -> None:
        """End all boxes."""
        for run_id in list(self._boxes):
            await self.close(run_id)

    async def _remove_containers(self, run_id: RunId) -> int:
        # Few runs have containers, so the others do not pay for what handles them.
        from agent_fabric.infrastructure.sandbox.podman_engine import find_engine, remove_containers  # noqa: PLC0415

        try:
            engine = find_engine(self._config.container_engine)
        except ConfigError:  # then there is none to remove, and a caller that wants one is told
            return 0
        return await remove_containers(engine, run_id)

    def _make(self, run_id: RunId, workspace: str, *, network_allowed: bool = False) -> Box:
        around = self._around
        if network_allowed and self._ways_out is not None and self.level == "A":
            around = replace(around, egress_socket=self._ways_out.socket_for(run_id))
        return make_box(self._choice.level, Path(workspace), run_id, self._config, around)
