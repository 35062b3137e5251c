"""What steps of workflows work with."""

from pathlib import Path

import pytest

from agent_fabric.config.schema.specialists import SpecialistConfig
from agent_fabric.config.schema.tools import WebConfig
from agent_fabric.domain.errors import RecruitError
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.packs.contents import STEPS
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack
from agent_fabric.infrastructure.packs.lazy_steps import LazySteps
from agent_fabric.infrastructure.packs.registry import PackParts, PackRegistry
from agent_fabric.infrastructure.persistence.runs.run_leases import FileLocks
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks
from agent_fabric.infrastructure.runs.log.snapshots import SnapshotFolder
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.web.access import LazyWeb
from agent_fabric.testing.fakes import FrozenClock
from standins.research import DictionaryWeb, ListCatalogue

RUN = RunId("a-run")


def registry(steps: LazySteps | None) -> PackRegistry:
    web = DictionaryWeb()
    return PackRegistry(
        PackParts(
            specialists={"engineering": SpecialistConfig(description="d")},
            sandbox_for=lambda run_id, workspace, *, network_allowed: UnconfinedSandbox(Path(workspace), run_id),
            shell_timeout_s=7,
            fetcher=web,
            search=web,
            snapshots_for=lambda run_id: SnapshotFolder(Path(run_id)),
            catalogue=ListCatalogue(),
            clock=FrozenClock(),
            locks=FileLocks(RunLocks(Path("agent-locks"))),
            steps=steps,
        )
    )


async def test_the_pack_runs_commands_in_the_run_s_box_and_is_on_no_list(tmp_path: Path) -> None:
    found = registry(LazySteps(LazyWeb(WebConfig()), shell_timeout_s=9))
    assert found.names() == ["engineering"]
    pack = found.get_pack(STEPS, run_id=RUN, workspace=str(tmp_path), network_allowed=False)
    assert isinstance(pack, BaseSpecialistPack)
    assert [spec.name for spec in pack.tool_definitions][:2] == ["shell", "http_request"]
    assert pack.tool_definitions[0].timeout_s == 9
    context = ToolContext(
        run_id=RUN, call_id=CallId("c"), timeout_s=10, network_allowed=False, environment={"GIVEN": "it's"}
    )
    result = await pack.execute_tool("shell", {"command": 'pwd; printf %s "$GIVEN"'}, context)
    assert result.output["stdout"] == f"{tmp_path}\nit's"


def test_without_workflows_there_is_no_such_pack() -> None:
    with pytest.raises(RecruitError, match="There is no pack"):
        registry(None).get_pack(STEPS, run_id=RUN, workspace=".", network_allowed=False)
