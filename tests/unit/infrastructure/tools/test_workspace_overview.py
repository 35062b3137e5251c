from pathlib import Path

from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.small_models import MAX_NAMED, MAX_OPENED, SHOWN_BYTES, WorkspaceOverview

CONTEXT = ToolContext(run_id=RunId("run"), call_id=CallId("call"), timeout_s=10, network_allowed=False)


async def look(workspace: Path) -> dict[str, object]:
    return dict((await WorkspaceOverview(UnconfinedSandbox(workspace, RunId("run")))({}, CONTEXT)).output)


async def test_a_look_shows_the_files_and_how_they_begin(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Title\n")
    (tmp_path / "b.bin").write_bytes(b"\0\1")
    assert await look(tmp_path) == {"files": {"b.bin": "(not text)", "docs/": "", "docs/a.md": "# Title\n"}}


async def test_an_empty_folder_is_said_to_be_empty(tmp_path: Path) -> None:
    assert await look(tmp_path) == {"files": "(none: the folder is empty)"}


async def test_long_files_and_many_files_are_cut(tmp_path: Path) -> None:
    for number in range(MAX_NAMED + 5):
        (tmp_path / f"{number:03d}.txt").write_text("é" * SHOWN_BYTES)
    seen = await look(tmp_path)
    files = seen["files"]
    assert isinstance(files, dict)
    assert seen["truncated"]
    assert len(files) == MAX_NAMED
    assert files["000.txt"] == "é" * (SHOWN_BYTES // 2) + "…"
    assert sum(1 for text in files.values() if text) == MAX_OPENED


async def test_a_link_that_leads_out_is_named_but_not_read(tmp_path: Path) -> None:
    inside = tmp_path / "workspace"
    inside.mkdir()
    (tmp_path / "secret").write_text("secret")
    (inside / "link").symlink_to(tmp_path / "secret")
    assert "secret" not in str(await look(inside))


async def test_a_look_says_what_a_table_consists_of(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,age\nAda,36\n")
    shape = "table of 1 rows below line 1, which names the columns 1 name, 2 age; ',' divides columns"
    about = f"({shape}; smallest age: 36 (Ada), largest age: 36 (Ada), sum: 36)"
    assert await look(tmp_path) == {"files": {"a.csv": f"{about}\nname,age\nAda,36\n"}}
