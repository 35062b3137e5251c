"""Packs whose commands run in a container: how they are put together. That they do is tried with real containers."""

from pathlib import Path

import pytest

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.schema.specialists import SpecialistConfig
from agent_fabric.domain.errors import ConfigError, PackBroken, RecruitError
from agent_fabric.domain.ids import CallId, RunId, SpecialistId
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def
from agent_fabric.infrastructure.packs.configured_tools import PackWithTools
from agent_fabric.infrastructure.packs.container_pack import ContainerisedPack
from agent_fabric.infrastructure.packs.engineering import build_engineering_pack
from agent_fabric.infrastructure.packs.registry import ContainerFor, PackParts, PackRegistry
from agent_fabric.infrastructure.persistence.runs.run_leases import FileLocks
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks
from agent_fabric.infrastructure.runs.log.snapshots import SnapshotFolder
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.testing.fakes import FrozenClock
from standins.research import DictionaryWeb, ListCatalogue

RUN = RunId("a-run")
ENGINEER = SpecialistId("engineering")
CONTEXT = ToolContext(run_id=RUN, call_id=CallId("c"), timeout_s=10, network_allowed=False)


def registry(image: str | None, container_for: ContainerFor | None) -> PackRegistry:
    web = DictionaryWeb()
    return PackRegistry(
        PackParts(
            specialists={ENGINEER: SpecialistConfig(description="d", container_image=image)},
            sandbox_for=lambda run_id, workspace, *, network_allowed: UnconfinedSandbox(Path(workspace), run_id),
            shell_timeout_s=7,
            fetcher=web,
            search=web,
            snapshots_for=lambda run_id: SnapshotFolder(Path(run_id)),
            catalogue=ListCatalogue(),
            clock=FrozenClock(),
            locks=FileLocks(RunLocks(Path("agent-locks"))),
            container_for=container_for,
        )
    )


@pytest.mark.proves("AF-107")
def test_a_specialist_with_an_image_gets_the_runs_container_of_it(tmp_path: Path) -> None:
    asked: list[tuple[RunId, str, str]] = []

    def container_for(run_id: RunId, workspace: str, image: str) -> Sandbox:
        asked.append((run_id, workspace, image))
        return UnconfinedSandbox(Path(workspace), run_id)

    with_image = registry("debian:stable", container_for)
    pack = with_image.get_pack(ENGINEER, run_id=RUN, workspace=str(tmp_path), network_allowed=False)
    assert pack.sandbox_level == UnconfinedSandbox(tmp_path, RUN).level
    assert asked == [(RUN, str(tmp_path), "debian:stable")]
    without = registry(None, container_for)
    plain = without.get_pack(ENGINEER, run_id=RUN, workspace=str(tmp_path), network_allowed=False)
    assert plain.sandbox_level == ""
    assert len(asked) == 1


@pytest.mark.proves("AF-108")
async def test_only_the_shell_goes_to_the_container_and_the_model_sees_no_difference(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "container").mkdir()
    inner = build_engineering_pack(UnconfinedSandbox(tmp_path / "own", RUN))
    pack = ContainerisedPack(inner, UnconfinedSandbox(tmp_path / "container", RUN))
    await pack.aopen()
    await pack.execute_tool("shell", {"command": "touch by-shell"}, CONTEXT)
    await pack.execute_tool("write_file", {"path": "by-tool", "content": ""}, CONTEXT)
    await pack.aclose()
    assert [path.name for path in (tmp_path / "container").iterdir()] == ["by-shell"]
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["by-tool"]
    assert pack.tool_definitions == inner.tool_definitions
    assert (pack.system_prompt, pack.finish) == (inner.system_prompt, inner.finish)
    assert (pack.compact_prompt, pack.compact_tools) == (inner.compact_prompt, inner.compact_tools)
    assert pack.hidden_tools == inner.hidden_tools


def test_where_containers_cannot_be_had_the_pack_says_so_with_a_hint(tmp_path: Path) -> None:
    def container_for(run_id: RunId, workspace: str, image: str) -> Sandbox:
        raise ConfigError("neither podman nor docker is here", hint="Install podman.")

    with pytest.raises(PackBroken, match="'engineering' cannot be used: neither podman nor docker") as caught:
        registry("x", container_for).get_pack(ENGINEER, run_id=RUN, workspace=str(tmp_path), network_allowed=False)
    assert caught.value.hint == "Install podman."
    with pytest.raises(RecruitError, match="cannot be started here"):
        registry("x", None).get_pack(ENGINEER, run_id=RUN, workspace=str(tmp_path), network_allowed=False)


def test_packs_around_each_other_hide_nothing_of_the_one_inside(tmp_path: Path) -> None:
    class Talkative(BaseSpecialistPack):
        notices = ("a server is missing",)

    inner = Talkative(
        system_prompt="Work.",
        compact_prompt="Work!",
        compact_tools=(),
        tools=(),
        finish=make_finish_tool_def({"summary": {"type": "string"}}),
    )
    container = UnconfinedSandbox(tmp_path, "run")
    outer = PackWithTools(ContainerisedPack(inner, container), SpecialistId("x"), ())
    assert (outer.notices, outer.sandbox_level) == (("a server is missing",), container.level)
    assert (outer.compact_prompt, outer.compact_tools) == ("Work!", ())
    assert PackWithTools(inner, SpecialistId("x"), ()).sandbox_level == "", "that of the run"
