"""The tool with which a small model begins a file."""

from pathlib import Path

import pytest

from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import ToolContext, ToolResult
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.small_models import MAX_BYTES, BeginFile

CONTEXT = ToolContext(run_id=RunId("run"), call_id=CallId("call"), timeout_s=10, network_allowed=False)


async def begin(workspace: Path, path: object) -> ToolResult:
    return await BeginFile(UnconfinedSandbox(workspace, "run"))({"path": path}, CONTEXT)


async def test_a_file_is_shown_after_the_others_and_nothing_is_changed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.py").write_text("y = 2\n")
    result = await begin(tmp_path, "./a.py")
    assert result.output == {"begins_file": "a.py", "files": {"sub/b.py": "y = 2\n", "a.py": "x = 1\n"}}
    assert list(result.output["files"]) == ["sub/b.py", "a.py"]
    assert not result.changed


async def test_a_table_is_shown_with_what_it_consists_of_unless_it_is_the_file_to_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("what,price\nlamp,29\nvase,12\n")
    shown = (await begin(tmp_path, "b.txt")).output["files"]["a.csv"]
    assert shown.startswith("what,price\nlamp,29\nvase,12\n(table of 2 rows")
    assert shown.endswith("smallest price: 12 (vase), largest price: 29 (lamp), sum: 41)")
    assert (await begin(tmp_path, "a.csv")).output["files"]["a.csv"] == "what,price\nlamp,29\nvase,12\n"


async def test_a_new_file_has_no_text_yet(tmp_path: Path) -> None:
    assert (await begin(tmp_path, "new/a.txt")).output == {"begins_file": "new/a.txt", "files": {}}


async def test_of_others_that_are_large_only_the_beginning_is_shown_and_no_more_than_one_can_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "big.csv").write_text("1234567\n" * 5_000)
    (tmp_path / "picture").write_bytes(b"\xff\xfe\x00")
    for number in range(5):
        (tmp_path / f"text{number}").write_text("x" * 1_500)
    files = (await begin(tmp_path, "a.txt")).output["files"]
    assert list(files) == ["big.csv", "text0", "text1"]
    assert files["big.csv"].endswith("\n…")
    assert sum(map(len, files.values())) <= MAX_BYTES


@pytest.mark.parametrize(
    ("path", "content", "told"),
    [
        ("a.txt", b"x" * (MAX_BYTES + 1), "too many to write again. Change its lines: sed -i"),
        ("a.txt", b"\xff\xfe", "not UTF-8"),
        ("", b"", "must name a file"),
        ("sub/", b"", "must name a file"),
        (None, b"", "must be given"),
    ],
)
async def test_what_cannot_be_written_as_one_answer_is_refused(
    tmp_path: Path, path: object, content: bytes, told: str
) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=told):
        await begin(tmp_path, path)


async def test_a_path_that_leads_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PermissionError):
        await begin(tmp_path, "../a.txt")
