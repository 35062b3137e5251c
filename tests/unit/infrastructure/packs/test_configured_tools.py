"""Tools and packs that others wrote, joined with ours."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import pytest

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.errors import RecruitError
from agent_fabric.domain.ids import CallId, RunId, SpecialistId
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def, tool_from
from agent_fabric.infrastructure.packs.configured_tools import PackWithTools, with_tools
from agent_fabric.infrastructure.packs.function_tools import tool
from agent_fabric.infrastructure.packs.imported_packs import build_imported
from agent_fabric.infrastructure.packs.sandboxed_tools import file_tools, shell_tool
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.tool_objects import ToolFunction
from installed_packages import laid_out

RUN = RunId("a-run")
ME = SpecialistId("me")
CONTEXT = ToolContext(run_id=RUN, call_id=CallId("c"), timeout_s=10, network_allowed=False)
OWN = make_tool_def("own", "Own.", {}, effect=Effect.READS)


@tool(effect=Effect.READS)
def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


def whisper(text: str) -> str:
    """Say it softly."""
    return text.lower()


class Echo:
    """A tool that is an object."""

    def within(self, sandbox: Sandbox) -> tuple[ToolSpec, ToolFunction]:
        return make_tool_def("echo", f"In {sandbox.level}.", {}), tool_from(lambda: "echo")


class Answer(NamedTuple):
    """What the tools of somebody else give back."""

    success: bool
    output: str
    error: str = ""


class Lookup:
    """A tool with the fewest members: name, description, execute."""

    name = "lookup"
    description = "Look a word up."

    async def execute(self, params: Mapping[str, Any], context: ToolContext) -> Answer:
        word = params.get("word", "")
        return Answer(True, f"{word} in {context.working_dir}") if word else Answer(False, "", "which word?")


class Divide:
    """A tool that blocks, with a schema, an effect and a time limit."""

    description = "Divide two numbers."
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"one": {"type": "number"}, "by": {"type": "number"}},
        "required": ["one", "by"],
    }
    effect = Effect.READS
    timeout_s = 3.0

    @property
    def name(self) -> str:
        return "divide"

    def execute(self, params: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if not params["by"]:
            return ToolResult(success=False, error="nothing can be divided by 0")
        return ToolResult(output={"quotient": params["one"] / params["by"]})


class LatePack(BaseSpecialistPack):
    """A pack that learns of its tools when it is opened."""

    def __init__(self, *names: str) -> None:
        super().__init__(system_prompt="p", tools=[(OWN, tool_from(lambda: "own"))], finish=make_finish_tool_def({}))
        self.names = names
        self.closed = False

    async def aopen(self) -> None:
        late = tuple(make_tool_def(name, name, {}) for name in self.names)
        self.tool_definitions = (*self.tool_definitions, *late)

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of somebody else."""
    module = ModuleType("somebodys")
    vars(module).update(shout=shout, whisper=whisper, echo=Echo(), text="text", lookup=Lookup(), Divide=Divide)
    monkeypatch.setitem(sys.modules, "somebodys", module)
    return module


def added(tmp_path: Path, *references: str, pack: BaseSpecialistPack | None = None) -> PackWithTools:
    return with_tools(pack or LatePack(), ME, references, UnconfinedSandbox(tmp_path, RUN))


def names(pack: PackWithTools) -> Sequence[str]:
    return [spec.name for spec in pack.tool_definitions]


@pytest.mark.proves("AF-111", "C13")
async def test_functions_and_objects_become_tools_beside_the_packs_own(tmp_path: Path) -> None:
    inner = LatePack("late")
    pack = added(tmp_path, "somebodys:shout", "somebodys:whisper", "somebodys:echo", pack=inner)
    await pack.aopen()
    assert names(pack) == ["own", "late", "shout", "whisper", "echo"]
    assert (pack.system_prompt, pack.finish) == (inner.system_prompt, inner.finish)
    calls: Mapping[str, Mapping[str, Any]] = {"own": {}, "shout": {"text": "Hi"}, "whisper": {"text": "Hi"}, "echo": {}}
    said = [(await pack.execute_tool(name, args, CONTEXT)).output["result"] for name, args in calls.items()]
    assert said == ["own", "HI", "hi", "echo"]
    with pytest.raises(KeyError):
        await pack.execute_tool("stranger", {}, CONTEXT)
    await pack.aclose()
    assert inner.closed


@pytest.mark.proves("A33-080", "A33-143", "C13")
async def test_an_object_with_name_description_and_execute_is_a_tool(tmp_path: Path) -> None:
    pack = added(tmp_path, "somebodys:lookup", "somebodys:Divide")
    _, lookup, divide = pack.tool_definitions
    assert (lookup.name, lookup.description, lookup.parameters["type"]) == ("lookup", "Look a word up.", "object")
    assert lookup.effect is Effect.CHANGES_WORKSPACE
    assert (divide.parameters, divide.effect, divide.timeout_s) == (Divide.parameters, Effect.READS, 3.0)
    found = await pack.execute_tool("lookup", {"word": "fabric"}, replace(CONTEXT, working_dir="/work"))
    assert (found.success, found.output, found.changed) == (True, {"result": "fabric in /work"}, True)
    unknown = await pack.execute_tool("lookup", {}, CONTEXT)
    assert (unknown.success, unknown.error) == (False, "which word?")
    assert (await pack.execute_tool("divide", {"one": 3, "by": 2}, CONTEXT)).output == {"quotient": 1.5}
    assert (await pack.execute_tool("divide", {"one": 3, "by": 0}, CONTEXT)).error == "nothing can be divided by 0"


async def test_a_pack_takes_tool_objects_beside_its_other_tools() -> None:
    pack = BaseSpecialistPack(
        system_prompt="p", tools=[(OWN, tool_from(lambda: "own")), Lookup()], finish=make_finish_tool_def({})
    )
    assert [spec.name for spec in pack.tool_definitions] == ["own", "lookup"]
    assert (await pack.execute_tool("lookup", {"word": "a"}, CONTEXT)).output == {"result": "a in "}


def test_an_object_that_cannot_be_described_to_a_model_is_refused(tmp_path: Path, module: ModuleType) -> None:
    for change, reason in (
        ({"name": "no name"}, "'no name' cannot be the name of a tool"),
        ({"name": "finish_task"}, "'finish_task' cannot be the name of a tool"),
        ({"description": " "}, "it has no description"),
        ({"parameters": {"type": "string"}}, "its parameters are not a JSON schema of an object"),
        ({"effect": "magic"}, "'magic' is not a valid Effect"),
    ):
        vars(module)["odd"] = type("Odd", (Lookup,), change)()
        with pytest.raises(RecruitError, match=reason):
            added(tmp_path, "somebodys:odd")


def test_a_plain_function_gets_the_careful_effect(tmp_path: Path) -> None:
    effects = {spec.name: spec.effect for spec in added(tmp_path, "somebodys:whisper").tool_definitions}
    assert effects["whisper"] is Effect.CHANGES_WORKSPACE


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("no_such_module_at_all:x", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("somebodys:nothing", "AttributeError: module 'somebodys' has no attribute 'nothing'"),
        ("somebodys:text", "TypeError: str is neither a function nor a tool"),
        ("json:dumps", "TypeError: the tool 'dumps': the parameter 'obj' has no type hint"),
        ("nobody_has_it", "no installed package has it; there are: "),
    ],
)
def test_a_tool_that_cannot_be_had_is_named_with_the_reason(tmp_path: Path, reference: str, reason: str) -> None:
    with pytest.raises(RecruitError) as caught:
        added(tmp_path, reference)
    assert caught.value.message.startswith(f"The tool {reference!r} of pack 'me' cannot be used: {reason}")
    assert caught.value.hint


def test_installed_packages_offer_tools_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def install(package: str) -> None:
        entry = "[agent_fabric.tools]\nloud = somebodys:shout\n"
        monkeypatch.syspath_prepend(laid_out(tmp_path, package, entry, ""))

    install("first")
    assert names(added(tmp_path, "loud")) == ["own", "shout"]
    install("second")
    with pytest.raises(RecruitError, match="more than one package has it: second and first; write it as module"):
        added(tmp_path, "loud")


async def test_two_tools_of_one_name_are_refused(tmp_path: Path, module: ModuleType) -> None:
    @tool
    def own() -> None:
        """Do it."""

    vars(module)["own"] = own
    for references in (("somebodys:own",), ("somebodys:shout", "somebodys:shout")):
        with pytest.raises(RecruitError, match=r"more than one tool named '(own|shout)'"):
            added(tmp_path, *references)
    hiding = BaseSpecialistPack(
        system_prompt="p", tools=[], hidden=[(OWN, tool_from(lambda: "own"))], finish=make_finish_tool_def({})
    )
    assert added(tmp_path, "somebodys:shout", pack=hiding).hidden_tools == (OWN,)
    with pytest.raises(RecruitError, match="more than one tool named 'own'"):
        added(tmp_path, "somebodys:own", pack=hiding)
    late = added(tmp_path, "somebodys:shout", pack=LatePack("shout"))
    with pytest.raises(RecruitError, match="more than one tool named 'shout'"):
        await late.aopen()


@pytest.mark.proves("AF-106")
async def test_a_builder_may_ask_for_the_runs_sandbox_by_name(tmp_path: Path, module: ModuleType) -> None:
    def build(workspace: str, network_allowed: bool, *, sandbox: Sandbox, run_id: str) -> BaseSpecialistPack:
        return BaseSpecialistPack(
            system_prompt=f"{workspace} {network_allowed} {run_id}",
            tools=[*file_tools(sandbox), shell_tool(sandbox, timeout_s=3)],
            finish=make_finish_tool_def({}),
        )

    vars(module)["build"] = build
    box = UnconfinedSandbox(tmp_path, RUN)
    pack = build_imported(ME, "somebodys:build", "/w", False, sandbox=box, run_id=RUN)
    assert pack.system_prompt == "/w False a-run"
    assert [(spec.name, spec.timeout_s) for spec in pack.tool_definitions][-1] == ("shell", 3)
    assert isinstance(pack, BaseSpecialistPack)
    await pack.execute_tool("write_file", {"path": "a.txt", "content": "hi"}, CONTEXT)
    assert (await pack.execute_tool("shell", {"command": "cat a.txt"}, CONTEXT)).output["stdout"] == "hi"


def two(sandbox: str, run_id: bool) -> BaseSpecialistPack:
    """Build with odd names: the first two are what they have always been."""
    return BaseSpecialistPack(system_prompt=f"{sandbox} {run_id}", tools=[], finish=make_finish_tool_def({}))


def test_the_first_two_arguments_are_the_workspace_and_the_network_whatever_their_names(
    tmp_path: Path, module: ModuleType
) -> None:
    vars(module)["build"] = two
    box = UnconfinedSandbox(tmp_path, RUN)
    pack = build_imported(ME, "somebodys:build", "/w", True, sandbox=box, run_id=RUN)
    assert pack.system_prompt == "/w True"


def no_pack(workspace: str, network_allowed: bool) -> ToolResult:
    return ToolResult(output={})


def twice(workspace: str, network_allowed: bool) -> BaseSpecialistPack:
    own, end = (OWN, tool_from(lambda: "own")), (make_tool_def("finish_task", "End.", {}), tool_from(lambda: "end"))
    return BaseSpecialistPack(system_prompt="p", tools=[own, own, end], finish=make_finish_tool_def({}))


def bad(workspace: str, network_allowed: bool, *, database: str) -> None: ...


def leaves(workspace: str, network_allowed: bool) -> None:
    raise SystemExit("no licence")


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (no_pack, "TypeError: ToolResult is not a pack: it has no system_prompt"),
        (twice, "ValueError: more than one tool is named 'finish_task', 'own'"),
        (bad, "missing 1 required keyword-only argument: 'database'"),
        (leaves, "SystemExit: no licence"),
        (lambda: None, "not declared as a builder"),
        (os.system, "not declared as a builder"),
        (os.rename, "not declared as a builder"),
        (shutil.rmtree, "not declared as a builder"),
        (print, "not declared as a builder"),
        ("build", "not declared as a builder"),
    ],
)
def test_a_builder_that_gives_no_pack_is_named_with_the_reason(
    tmp_path: Path, module: ModuleType, build: Any, reason: str
) -> None:
    vars(module)["build"] = build
    with pytest.raises(RecruitError) as caught:
        build_imported(ME, "somebodys:build", "/w", True, sandbox=UnconfinedSandbox(tmp_path, RUN), run_id=RUN)
    assert "somebodys:build" in caught.value.message
    assert reason in caught.value.message


def test_what_is_no_builder_is_never_called(tmp_path: Path, module: ModuleType) -> None:
    called: list[object] = []

    def delete(path: object, ignore_errors: bool = False) -> None:
        called.append(path)

    vars(module)["build"] = delete
    with pytest.raises(RecruitError, match="it was not called"):
        build_imported(ME, "somebodys:build", "/w", True, sandbox=UnconfinedSandbox(tmp_path, RUN), run_id=RUN)
    assert called == []


class OldPack:
    """A pack with the members that every pack must have, and no more."""

    system_prompt = "p"
    tool_definitions = (OWN,)
    finish = make_finish_tool_def({})

    async def aopen(self) -> None: ...

    async def aclose(self) -> None: ...

    async def execute_tool(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult(output={"name": name})


async def test_a_pack_without_the_optional_members_gets_their_defaults(tmp_path: Path, module: ModuleType) -> None:
    vars(module)["build"] = lambda workspace, network_allowed: OldPack()
    box = UnconfinedSandbox(tmp_path, RUN)
    pack = build_imported(ME, "somebodys:build", "/w", False, sandbox=box, run_id=RUN)
    assert (pack.compact_prompt, pack.compact_tools, pack.sandbox_level) == (None, None, "")
    assert (tuple(pack.hidden_tools), tuple(pack.notices), tuple(pack.tool_definitions)) == ((), (), (OWN,))
    around = with_tools(pack, ME, ["somebodys:shout"], box)
    assert (await around.execute_tool("own", {}, CONTEXT)).output == {"name": "own"}
    vars(module)["build"] = lambda workspace, network_allowed: type("Boxed", (OldPack,), {"sandbox_level": "A"})()
    assert build_imported(ME, "somebodys:build", "/w", False, sandbox=box, run_id=RUN).sandbox_level == "A"
