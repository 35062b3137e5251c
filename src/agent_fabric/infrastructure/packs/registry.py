"""Builds packs by name."""

import importlib
from collections.abc import Callable, Mapping, Sequence

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.schema.specialists import SpecialistConfig
from agent_fabric.domain.errors import RecruitError
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.infrastructure.packs.engineering import build_engineering_pack

SandboxFor = Callable[[RunId, str], Sandbox]
"""Gives the box for a run and its workspace."""


class ConfigSpecialistRegistry:
    """SpecialistRegistry over the configuration: built-in packs, and any function named by `builder`."""

    def __init__(
        self, specialists: Mapping[str, SpecialistConfig], sandbox_for: SandboxFor, *, shell_timeout_s: float
    ) -> None:
        self._specialists = specialists
        self._sandbox_for = sandbox_for
        self._built_in: Mapping[str, Callable[[Sandbox], SpecialistPack]] = {
            "engineering": lambda sandbox: build_engineering_pack(sandbox, shell_timeout_s=shell_timeout_s)
        }

    def names(self) -> Sequence[SpecialistId]:
        return [SpecialistId(name) for name in self._specialists]

    def get_pack(
        self, specialist_id: SpecialistId, *, run_id: RunId, workspace: str, network_allowed: bool
    ) -> SpecialistPack:
        config = self._specialists.get(specialist_id)
        if config is None:
            raise RecruitError(
                f"There is no pack {specialist_id!r}", hint=f"Known packs: {', '.join(self._specialists)}."
            )
        if config.mcp_servers or config.container_image:
            raise RecruitError(
                f"The pack {specialist_id!r} asks for mcp_servers or container_image, which this version cannot give",
                hint="Remove them from the configuration.",
            )
        if config.builder is not None:
            return _build(specialist_id, config.builder, workspace, network_allowed)
        built_in = self._built_in.get(specialist_id)
        if built_in is None:
            raise RecruitError(
                f"The pack {specialist_id!r} has no `builder` and is not built in",
                hint=f'Set builder: "module:function". Built in: {", ".join(self._built_in)}.',
            )
        return built_in(self._sandbox_for(run_id, workspace))


def _build(specialist_id: SpecialistId, builder: str, workspace: str, network_allowed: bool) -> SpecialistPack:
    module_name, _, function_name = builder.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
        pack: SpecialistPack = function(workspace, network_allowed)
    except Exception as problem:
        raise RecruitError(
            f"The builder {builder!r} of pack {specialist_id!r} failed: {type(problem).__name__}: {problem}",
            hint="It must be importable and take (workspace_path, network_allowed).",
        ) from problem
    return pack
