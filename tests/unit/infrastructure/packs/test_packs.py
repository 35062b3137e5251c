"""Packs: what they are made of, and how they are found."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.config.defaults import PHASES
from agent_fabric.config.schema.specialists import SpecialistConfig
from agent_fabric.domain.errors import FabricError, RecruitError
from agent_fabric.domain.ids import CallId, RunId, SpecialistId
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def, tool_from
from agent_fabric.infrastructure.packs.engineering import build_engineering_pack
from agent_fabric.infrastructure.packs.registry import PackParts, PackRegistry
from agent_fabric.infrastructure.packs.sandboxed_tools import workspace_tools
from agent_fabric.infrastructure.packs.wrapped_pack import WrappedPack
from agent_fabric.infrastructure.persistence.runs.run_leases import FileLocks
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks
from agent_fabric.infrastructure.runs.log.snapshots import SnapshotFolder
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.testing.fakes import FrozenClock
from standins.research import DictionaryWeb, ListCatalogue

RUN = RunId("a-run")
BOXED = [spec.name for spec, _ in workspace_tools(UnconfinedSandbox(Path(), RUN))]
"""What engineering, the assistant and agents have to work in a box."""
CONTEXT = ToolContext(run_id=RUN, call_id=CallId("c"), timeout_s=10, network_allowed=False)


def registry(**specialists: Mapping[str, Any]) -> PackRegistry:
    configs = {name: SpecialistConfig(description="d", **config) for name, config in specialists.items()}
    web = DictionaryWeb()
    return PackRegistry(
        PackParts(
            specialists=configs,
            sandbox_for=lambda run_id, workspace, *, network_allowed: UnconfinedSandbox(Path(workspace), run_id),
            shell_timeout_s=7,
            fetcher=web,
            search=web,
            snapshots_for=lambda run_id: SnapshotFolder(Path(run_id)),
            catalogue=ListCatalogue(),
            clock=FrozenClock(),
            locks=FileLocks(RunLocks(Path("agent-locks"))),
        )
    )


def get(found: PackRegistry, name: str, workspace: str = ".", *, network_allowed: bool = True) -> SpecialistPack:
    return found.get_pack(SpecialistId(name), run_id=RUN, workspace=workspace, network_allowed=network_allowed)


@pytest.mark.proves("AF-100", "AF-062", "AF-107")
async def test_the_engineering_pack_works_in_its_workspace(tmp_path: Path) -> None:
    pack = build_engineering_pack(UnconfinedSandbox(tmp_path, RUN))
    assert [tool.name for tool in pack.tool_definitions] == BOXED
    assert {"shell", "read_file", "write_file", "edit_file", "list_files", "search_files"} <= {*BOXED}
    assert list(pack.finish.parameters["properties"]) == [
        *("summary", "changed", "checked", "artifacts", "next_steps", "notes")
    ]
    assert pack.finish.needs_proof
    assert "plan, implement, test, review, iterate" in pack.system_prompt
    await pack.execute_tool("write_file", {"path": "a/b.txt", "content": "hello"}, CONTEXT)
    read = await pack.execute_tool("read_file", {"path": "a/b.txt"}, CONTEXT)
    ran = await pack.execute_tool("shell", {"command": "cat a/b.txt"}, CONTEXT)
    listed = await pack.execute_tool("list_files", {"path": "."}, CONTEXT)
    assert read.output["content"] == ran.output["stdout"] == "hello"
    assert "a/b.txt" in listed.output["files"]


WEB_TOOLS = ["web_search", "fetch_url", "record_evidence"]
FILE_TOOLS = ["write_file", "read_file", "list_files"]


@pytest.mark.proves("AF-101", "AF-102", "AF-062", "AF-109")
@pytest.mark.parametrize(("name", "more"), [("research", []), ("enterprise_research", ["cross_run_search"])])
def test_the_research_packs_have_web_and_file_tools_and_end_with_citations(name: str, more: list[str]) -> None:
    pack = get(registry(research={}, enterprise_research={}), name)
    assert [tool.name for tool in pack.tool_definitions] == [*more, *WEB_TOOLS, *FILE_TOOLS]
    assert list(pack.finish.parameters["properties"]) == ["summary", "deliverables", "citations", "limitations"]
    assert pack.finish.needs_citations
    assert not pack.finish.needs_proof
    assert "scope, search, screen, extract, synthesize" in pack.system_prompt


@pytest.mark.proves("AF-103", "AF-104", "C24")
@pytest.mark.parametrize(("name", "more"), [("research", []), ("enterprise_research", ["cross_run_search"])])
async def test_without_the_network_web_tools_are_not_offered_but_answer(name: str, more: list[str]) -> None:
    pack = get(registry(research={}, enterprise_research={}), name, network_allowed=False)
    assert isinstance(pack, WrappedPack)
    assert [tool.name for tool in pack.tool_definitions] == [*more, *FILE_TOOLS]
    assert [tool.name for tool in pack.hidden_tools] == WEB_TOOLS
    assert pack.finish.needs_citations, "what is cited all the same is held against nothing"
    assert "no web address may be cited" in pack.system_prompt
    answer = await pack.execute_tool("fetch_url", {"url": "https://a.org"}, CONTEXT)
    assert answer.output["error"] == "network disabled"


def test_a_run_of_another_pack_does_not_import_the_research_packs() -> None:
    script = (
        "import sys; from agent_fabric.bootstrap.local import build_local; "
        "print([name for name in sys.modules if 'packs.research' in name or name in ('trafilatura', 'aiohttp')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.proves("AF-105")
async def test_a_pack_is_a_prompt_tools_and_a_finish_schema_and_opens_by_doing_nothing() -> None:
    spec = make_tool_def("greet", "Greet.", {"name": {"type": "string"}})
    finish = make_finish_tool_def({"summary": {"type": "string"}})
    pack = BaseSpecialistPack(system_prompt="p", tools=[(spec, tool_from(lambda name: f"hi {name}"))], finish=finish)
    await pack.aopen()
    result = await pack.execute_tool("greet", {"name": "Ann"}, CONTEXT)
    await pack.aclose()
    assert result == ToolResult(output={"result": "hi Ann"})
    with pytest.raises(KeyError):
        await pack.execute_tool("finish_task", {}, CONTEXT)


@pytest.mark.proves("AF-109")
def test_tools_are_declared_in_one_line_and_unknown_effects_are_the_careful_ones() -> None:
    spec = make_tool_def("x", "d", {"a": {"type": "string"}, "b": {"type": "integer"}}, required=["a"])
    assert spec.parameters == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "required": ["a"],
    }
    assert spec.effect is Effect.CHANGES_WORKSPACE
    assert make_finish_tool_def({"summary": {"type": "string"}}).parameters["required"] == ["summary"]


@pytest.mark.proves("C13")
async def test_async_functions_and_whole_results_make_tools_too() -> None:
    async def later(n: int) -> ToolResult:
        return ToolResult(output={"n": n + 1}, proved="pytest")

    assert await tool_from(later)({"n": 1}, CONTEXT) == ToolResult(output={"n": 2}, proved="pytest")


async def test_what_a_blocking_tool_raises_arrives() -> None:
    def fail() -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await tool_from(fail)({}, CONTEXT)


@pytest.mark.proves("AF-106")
def test_a_builder_named_in_the_configuration_builds_the_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("somebodys_packs")

    def build(workspace: str, network_allowed: bool) -> BaseSpecialistPack:
        return BaseSpecialistPack(
            system_prompt=f"{workspace} {network_allowed}", tools=[], finish=make_finish_tool_def({})
        )

    module.build = build  # type: ignore[attr-defined]  # made here
    monkeypatch.setitem(sys.modules, "somebodys_packs", module)
    found = registry(custom={"builder": "somebodys_packs:build"}, engineering={})
    assert found.names() == ["custom", "engineering"]
    assert get(found, "custom", "/w").system_prompt == "/w True"


@pytest.mark.parametrize("builder", ["no_such_module:build", "json:no_such_function", "json:dumps"])
def test_a_builder_that_fails_is_named(builder: str) -> None:
    with pytest.raises(RecruitError, match=builder.replace(":", ".")):
        get(registry(custom={"builder": builder}), "custom")


def test_packs_that_cannot_be_had_are_refused_with_a_hint() -> None:
    found = registry(engineering={}, nobody={}, boxed={"container_image": "debian"})
    for name in ("stranger", "nobody", "boxed"):
        with pytest.raises(RecruitError) as caught:
            get(found, name)
        assert caught.value.hint


def test_recruiting_fails_with_an_error_of_the_family() -> None:
    assert issubclass(RecruitError, FabricError)
    assert RecruitError.code == "pack_unknown"


@pytest.mark.proves("CO-10")
def test_the_assistant_has_files_a_shell_and_the_web_where_it_may() -> None:
    found = registry(assistant={})
    online, offline = get(found, "assistant"), get(found, "assistant", network_allowed=False)
    assert [tool.name for tool in online.tool_definitions] == [*BOXED, "web_search", "fetch_url"]
    assert [tool.name for tool in offline.tool_definitions] == BOXED
    assert [tool.name for tool in offline.compact_tools or ()] == ["shell", "read_file", "write_file", "list_files"]
    assert [tool.name for tool in offline.hidden_tools] == ["web_search", "fetch_url"]


@pytest.mark.proves("AF-152")
def test_phases_that_a_configuration_names_are_in_the_prompts() -> None:
    usual, own = registry(engineering={}), registry(engineering={"workflow": ("read", "write the test first", "build")})
    builtin = registry(engineering={"workflow": PHASES["engineering"]})
    said = "\n\nWork in these phases, in this order: read, write the test first, build."
    assert get(builtin, "engineering").system_prompt == get(usual, "engineering").system_prompt
    assert get(own, "engineering").system_prompt == get(usual, "engineering").system_prompt + said
    assert str(get(own, "engineering").compact_prompt).endswith(said)
