"""The tool that replaces one line, as small models use it: with the wrong number, no indent, or the same text."""

from pathlib import Path

import pytest

from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import ToolContext, ToolResult
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.small_models import FixLine

CONTEXT = ToolContext(run_id=RunId("run"), call_id=CallId("call"), timeout_s=10, network_allowed=False)
PROGRAM = 'def report(prices):\n    total = sum(prices)\n    return "Total: " + total\n\n\nprint(report([1]))\n'


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text(PROGRAM)
    return tmp_path


async def fix(workspace: Path, line: object, new: str, path: str = "a.py") -> ToolResult:
    return await FixLine(UnconfinedSandbox(workspace, "run"))({"path": path, "line": line, "new": new}, CONTEXT)


async def test_a_line_is_replaced_and_keeps_its_indent(workspace: Path) -> None:
    result = await fix(workspace, 3, 'return "Total: " + str(total)')
    assert (workspace / "a.py").read_text() == PROGRAM.replace("+ total", "+ str(total)")
    assert result.output["was"] == '    return "Total: " + total'
    assert '3:     return "Total: " + str(total)' in result.output["now"]
    assert (result.changed, result.wrote) == (True, ("a.py",))


async def test_several_lines_may_stand_for_one(workspace: Path) -> None:
    await fix(workspace, 2, "    total = 0\n    for price in prices:\n        total += price")
    assert "    for price in prices:\n        total += price\n    return" in (workspace / "a.py").read_text()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\n", b"a\r\nnew\r\n"),
        (b"a\nb", b"a\nnew"),
        (b"a\x0cx\nb\n\xe2\x80\xa8c\n", b"a\x0cx\nnew\n\xe2\x80\xa8c\n"),
        (b"a\r\nb\n", b"a\r\nnew\n"),
    ],
    ids=["returns", "no end", "other separators", "mixed"],
)
async def test_all_other_bytes_stay(workspace: Path, before: bytes, after: bytes) -> None:
    (workspace / "a.txt").write_bytes(before)
    await fix(workspace, 2, "new", "a.txt")
    assert (workspace / "a.txt").read_bytes() == after


async def test_what_is_binary_is_refused(workspace: Path) -> None:
    (workspace / "a.bin").write_bytes(b"a\0b\nc\n")
    with pytest.raises(ValueError, match="binary"):
        await fix(workspace, 2, "new", "a.bin")


@pytest.mark.parametrize(
    ("line", "new", "said"),
    [
        (3, 'return "Total: " + total', "nothing would change"),
        (2, 'return "Total: " + total', "line 3 of a.py is that already: nothing would change"),
        (4, "return 3", "is empty. Name the line that is wrong:\n1: def report"),
        (9, "x", "has 6 lines:\n1: def report"),
        (0, "x", "has 6 lines"),
        ("3", "x", "as a number"),
        (True, "x", "as a number"),
        (1, "\ud800", "not valid text"),
    ],
)
async def test_what_cannot_be_meant_is_refused_and_nothing_changes(
    workspace: Path, line: object, new: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        await fix(workspace, line, new)
    assert (workspace / "a.py").read_text() == PROGRAM


async def test_what_is_no_text_is_refused(workspace: Path) -> None:
    (workspace / "b.bin").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="not UTF-8"):
        await fix(workspace, 1, "x", "b.bin")


async def test_a_text_with_the_wrong_number_replaces_the_line_it_is_meant_for(workspace: Path) -> None:
    result = await fix(workspace, 2, '    return "Total: " + str(total)')
    assert (workspace / "a.py").read_text() == PROGRAM.replace("+ total", "+ str(total)")
    assert (result.output["line"], result.output["was"]) == (3, '    return "Total: " + total')
