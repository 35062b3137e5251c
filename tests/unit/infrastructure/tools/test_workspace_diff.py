from pathlib import Path

import pytest

from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.shell import RunShell
from agent_fabric.infrastructure.tools.workspace_diff import MAX_FILES, MAX_SHOWN, SHOWN_BYTES, difference, lost_texts

CONTEXT = ToolContext(run_id=RunId("run"), call_id=CallId("call"), timeout_s=10, network_allowed=False)


async def changed_by(command: str, workspace: Path) -> object:
    result = await RunShell(UnconfinedSandbox(workspace, RunId("run")))({"command": command}, CONTEXT)
    return result.output.get("changed_files")


async def test_a_command_that_writes_shows_what_the_files_contain_now(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert await changed_by("wc -l a.txt > n.txt", tmp_path) == {"n.txt": "2 a.txt\n"}


async def test_of_a_file_that_was_there_only_the_lines_that_went_and_came_are_shown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("size: 2\nport: 80\nlimit: 25\n")
    changed = await changed_by("sed -i s/2/5/ a.txt", tmp_path)
    assert changed == {"a.txt": "-size: 2\n+size: 5\n-limit: 25\n+limit: 55"}
    assert await changed_by("echo end >> a.txt", tmp_path) == {"a.txt": "+end"}
    assert await changed_by("printf 'size: 5\nport: 80\nlimit: 55\nend' > a.txt", tmp_path) == {
        "a.txt": "(only the end of the last line)"
    }
    assert await changed_by(": > a.txt", tmp_path) == {"a.txt": "(empty)"}


async def test_a_command_that_changed_nothing_is_seen_to_have_changed_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    assert await changed_by("sed -i s/other/x/ a.txt", tmp_path) == {}


async def test_files_that_went_or_moved_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    assert await changed_by("mv a.txt b.txt", tmp_path) == {"a.txt": "(deleted)", "b.txt": "one\n"}


async def test_a_new_folder_is_a_change(tmp_path: Path) -> None:
    assert await changed_by("mkdir docs", tmp_path) == {"docs/": "(folder)"}


async def test_commands_that_only_look_are_not_watched(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    assert await changed_by("cat a.txt", tmp_path) is None


async def test_a_large_workspace_is_not_compared(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 1):
        (tmp_path / f"{number}.txt").touch()
    assert await changed_by("echo x > 1.txt", tmp_path) is None


async def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "workspace"
    inside.mkdir()
    (tmp_path / "secret").write_text("secret")
    (inside / "link").symlink_to(tmp_path / "secret")
    assert await changed_by("echo x > a.txt", inside) == {"a.txt": "x\n"}


def test_long_and_many_changes_are_cut() -> None:
    assert difference({}, {"a": b"x" * 5_000}) == {"a": f"{'x' * SHOWN_BYTES}…"}
    assert difference({}, {"a": b"\0\1"}) == {"a": "(not text)"}
    many = difference({}, {f"{number:02d}": b"" for number in range(9)})
    assert len(many) == MAX_SHOWN + 1
    assert many["…"] == "and 4 more"


async def test_what_a_program_writes_is_shown_and_what_it_keeps_for_itself_is_not(tmp_path: Path) -> None:
    (tmp_path / "lib.py").write_text("N = 3\n")
    (tmp_path / "gen.py").write_text("import lib\nopen('n.txt', 'w').write(str(lib.N))\n")
    assert await changed_by("PYTHONDONTWRITEBYTECODE= python3 gen.py", tmp_path) == {"n.txt": "3"}
    assert (tmp_path / "__pycache__").exists()


@pytest.mark.parametrize(
    ("command", "after", "is_lost"),
    [
        ("echo new > a.txt", b"new\n", True),
        ("echo new >a.txt", b"new\n", True),
        ("echo new >> a.txt", b"old\nnew\n", False),
        ("echo new > a.txt.bak", b"new\n", False),
        ("sed -i s/old/new/ a.txt", b"new\n", False),
        ("echo old > a.txt", b"old\n", False),
        (": > a.txt", b"", False),
    ],
)
def test_a_text_that_was_replaced_without_a_line_left_is_lost(command: str, after: bytes, is_lost: bool) -> None:
    lost = lost_texts(command, {"a.txt": b"old\n"}, {"a.txt": after})
    assert lost == ({"a.txt": "old\n"} if is_lost else {})
