"""Tools made of plain functions."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import pytest

from agent_fabric.application.ports.sandbox import CommandOutcome
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.json_schema import problems_with
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult
from agent_fabric.infrastructure.packs.function_tools import FunctionTool, tool

if TYPE_CHECKING:
    from agent_fabric.extend import BlockingSandbox, Sandbox

CONTEXT = ToolContext(run_id=RunId("a-run"), call_id=CallId("c"), timeout_s=10, network_allowed=False)


@dataclass
class Box:
    """A sandbox that holds files in memory and whose commands take for ever."""

    level: str = "C"
    files: dict[str, bytes] = field(default_factory=dict)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    ended: list[str] = field(default_factory=list)

    async def run_command(
        self,
        command: str,
        *,
        timeout_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> CommandOutcome:
        self.started.set()
        try:
            await asyncio.wait_for(asyncio.Event().wait(), timeout_s)
            raise AssertionError("nobody ends it")
        finally:
            self.ended.append(command)

    async def read_file(self, path: str, *, max_bytes: int) -> tuple[bytes, int]:
        if path.startswith("/"):
            raise PermissionError(f"{path} is outside the workspace")
        return self.files[path][:max_bytes], len(self.files[path])

    async def write_file(self, path: str, data: bytes) -> bool:
        new = path not in self.files
        self.files[path] = data
        return new

    async def list_files(self, path: str, *, max_entries: int) -> tuple[list[str], bool]:
        return sorted(self.files)[:max_entries], len(self.files) > max_entries

    async def end_leftovers(self) -> int:
        return 0


async def call(made: FunctionTool[Any, Any], box: Box | None = None, /, **args: Any) -> ToolResult:
    """Call a tool as a run does: arguments that do not fit its schema never reach it."""
    spec, function = made.within(box or Box())
    assert problems_with(args, spec.parameters) == []
    return await function(args, CONTEXT)


def schema_of(hint: Any) -> Any:
    def example(value: Any) -> None:
        """Take anything."""

    example.__annotations__["value"] = hint
    return tool(example).spec.parameters["properties"]["value"]


@pytest.mark.proves("AF-111", "C13", "A33-080")
async def test_a_tool_is_a_function_with_a_docstring_and_type_hints() -> None:
    @tool(effect=Effect.READS, timeout_s=5)
    def repeat(
        text: Annotated[str, "What to repeat."], times: Annotated[int, {"minimum": 1}] = 2, *, loud: bool = False
    ) -> dict[str, Any]:
        """Repeat a text.

        As often as you like.

        Args:
            text: For people who read code.
        """
        return {"text": (text.upper() if loud else text) * times}

    assert repeat.spec.name == "repeat"
    assert repeat.spec.description == "Repeat a text.\n\nAs often as you like."
    assert (repeat.spec.effect, repeat.spec.timeout_s) == (Effect.READS, 5)
    assert repeat.spec.parameters == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to repeat."},
            "times": {"type": "integer", "minimum": 1, "default": 2},
            "loud": {"type": "boolean", "default": False},
        },
        "required": ["text"],
        "additionalProperties": False,
    }
    assert await call(repeat, text="ab", loud=True) == ToolResult(output={"text": "ABAB"})
    assert repeat("ab", 1) == {"text": "ab"}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (float, {"type": "number"}),
        (Any, {}),
        (list, {"type": "array"}),
        (dict, {"type": "object"}),
        (list[list[int]], {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (Mapping[str, Any], {"type": "object", "additionalProperties": {}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1], {"type": ["string", "integer"], "enum": ["a", 1]}),
        (Optional[str], {"type": ["string", "null"]}),  # noqa: UP045 - people write it
        (int | str, {"type": ["integer", "string"]}),
        (list[str] | None, {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}),
        (Annotated[int | None, "How many."], {"type": ["integer", "null"], "description": "How many."}),
        ("int", {"type": "integer"}),
    ],
)
def test_type_hints_become_a_schema(hint: Any, schema: Any) -> None:
    assert schema_of(hint) == schema


@pytest.mark.parametrize("hint", [Path, set[str], dict[int, str], tuple[int, int], bytes, Literal[b"x"], object])
def test_a_hint_that_no_json_value_fits_is_named(hint: Any) -> None:
    with pytest.raises(TypeError, match=r"the tool 'example': the parameter 'value': no JSON value fits"):
        schema_of(hint)


def without_docstring(value: str) -> None: ...


def without_hint(value) -> None:  # type: ignore[no-untyped-def]  # the point of it
    """Do it."""


def with_many(*values: str) -> None:
    """Do it."""


def with_any(**values: str) -> None:
    """Do it."""


def with_a_stranger(value: "NoSuchType") -> None:  # type: ignore[name-defined]  # noqa: F821 - the point of it
    """Do it."""


def with_a_note(value: Annotated[str, 7]) -> None:
    """Do it."""


def finish_task() -> None:
    """Do it."""


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (without_docstring, "it has no docstring"),
        (without_hint, "the parameter 'value' has no type hint"),
        (with_many, "cannot be given by name"),
        (with_any, "cannot be given by name"),
        (with_a_stranger, "name 'NoSuchType' is not defined"),
        (with_a_note, "not 7"),
        (finish_task, "'finish_task' cannot be the name of a tool"),
        (lambda: None, "cannot be the name of a tool"),
    ],
)
def test_a_function_that_cannot_be_described_is_refused_with_the_reason(function: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        tool(function)


def test_a_command_argument_must_be_one_that_the_policy_can_read() -> None:
    def run(command: str, times: int) -> None:
        """Run it."""

    assert tool(command_argument="command")(run).spec.command_argument == "command"
    for wrong in ("comand", "times"):
        with pytest.raises(TypeError, match="is not a parameter of type str"):
            tool(command_argument=wrong)(run)
    with pytest.raises(TypeError, match="greater than 0"):
        tool(timeout_s=0)(run)


@pytest.mark.proves("AF-111", "A33-081")
async def test_sandbox_and_context_are_given_and_the_model_does_not_see_them() -> None:
    @tool(effect=Effect.READS)
    async def size(sandbox: "Sandbox", path: str, context: ToolContext) -> dict[str, Any]:
        """Tell a file's size."""
        _, size = await sandbox.read_file(path, max_bytes=1)
        return {"size": size, "run": context.run_id}

    assert list(size.spec.parameters["properties"]) == ["path"]
    result = await call(size, Box(files={"a": b"four"}), path="a")
    assert result.output == {"size": 4, "run": "a-run"}
    with pytest.raises(PermissionError):
        await call(size, path="/etc/passwd")


@pytest.mark.proves("AF-111", "C13")
async def test_a_function_that_blocks_gets_a_sandbox_that_blocks() -> None:
    threads: list[threading.Thread] = []

    @tool
    def double(sandbox: "BlockingSandbox", path: str) -> str:
        """Write a file twice as long."""
        threads.append(threading.current_thread())
        data, _ = sandbox.read_file(path, max_bytes=100)
        sandbox.write_file("double", data * 2)
        return f"{sandbox.list_files('.', max_entries=9)} {sandbox.level}"

    box = Box(files={"a": b"ab"})
    result = await call(double, box, path="a")
    assert result == ToolResult(output={"result": "(['a', 'double'], False) C"}, changed=True)
    assert box.files["double"] == b"abab"
    assert threads[0] is not threading.main_thread()


async def test_when_a_call_ends_a_thread_of_it_has_no_sandbox_any_more() -> None:
    told: list[BaseException] = []
    gone = threading.Event()

    @tool
    def stubborn(sandbox: "BlockingSandbox") -> None:
        """Go on for ever."""
        for command in ("one", "two"):
            try:
                sandbox.run_command(command, timeout_s=1000)
            except BaseException as problem:  # noqa: BLE001 - a tool that will not give up
                told.append(problem)
        gone.set()

    box = Box()
    running = asyncio.create_task(call(stubborn, box))
    await box.started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert box.ended == ["one"], "what the sandbox did for the call has ended when the call has"
    assert await asyncio.to_thread(gone.wait, 10)
    assert box.ended == ["one"], "and nothing new has begun"
    assert "has ended" in str(told[1])


@pytest.mark.parametrize(
    ("effect", "changed"),
    [
        (Effect.READS, False),
        (Effect.LEAVES_SANDBOX, False),
        (Effect.IDEMPOTENT, True),
        (Effect.CHANGES_WORKSPACE, True),
    ],
)
async def test_a_tool_that_changes_things_counts_as_a_change_unless_it_says_otherwise(
    effect: Effect, changed: bool
) -> None:
    @tool(effect=effect)
    async def plain() -> dict[str, Any]:
        """Do it."""
        return {}

    @tool(effect=effect)
    async def knowing() -> ToolResult:
        """Do it."""
        return ToolResult(output={}, proved="make test")

    assert (await call(plain)).changed is changed
    assert await call(knowing) == ToolResult(output={}, proved="make test")


async def test_a_whole_number_is_one_however_the_model_writes_it() -> None:
    @tool
    async def kinds(a: int, b: float, c: int | None = None) -> list[str]:
        """Tell the kinds."""
        return [type(value).__name__ for value in (a, b, c)]

    assert (await call(kinds, a=3.0, b=3.0, c=2.0)).output == {"result": ["int", "float", "int"]}
