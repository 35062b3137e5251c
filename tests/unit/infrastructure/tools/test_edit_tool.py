import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.files import EDIT_FILE, EditFile
from effort import examples

CONTEXT = ToolContext(run_id=RunId("run"), call_id=CallId("call"), timeout_s=10, network_allowed=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path


async def edit(workspace: Path, old: str, new: str, **more: Any) -> ToolResult:
    args = {"path": "file", "old_text": old, "new_text": new} | more
    return await EditFile(UnconfinedSandbox(workspace, "run"))(args, CONTEXT)


async def test_one_piece_is_replaced_and_the_rest_stays_as_it_is(workspace: Path) -> None:
    (workspace / "file").write_bytes(b"\xef\xbb\xbfone\ntwo\r\nthree")
    result = await edit(workspace, "two", "2\n2")
    assert (workspace / "file").read_bytes() == b"\xef\xbb\xbfone\n2\n2\r\nthree"
    assert result == ToolResult(
        output={"path": "file", "replaced": 1, "lines": [2], "bytes": 17, "now": "\ufeffone\n2\n2\nthree"},
        changed=True,
        wrote=("file",),
    )


async def test_a_file_keeps_its_mode(workspace: Path) -> None:
    (workspace / "file").write_text("one")
    (workspace / "file").chmod(0o750)
    await edit(workspace, "one", "two")
    assert (workspace / "file").stat().st_mode & 0o777 == 0o750


async def test_a_file_keeps_its_line_endings_whatever_the_model_writes(workspace: Path) -> None:
    (workspace / "file").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await edit(workspace, "one\ntwo", "1\n2\n2b")
    assert (workspace / "file").read_bytes() == b"1\r\n2\r\n2b\r\nthree\r\n"


async def test_several_matches_are_counted_and_placed_and_none_is_replaced(workspace: Path) -> None:
    (workspace / "file").write_text("x = 1\ny\nx = 1\n\nx = 1\n")
    with pytest.raises(ValueError, match=r"occurs 3 times, at lines 1, 3, 5\. Add lines around it"):
        await edit(workspace, "x = 1", "x = 2")
    assert "2" not in (workspace / "file").read_text()
    result = await edit(workspace, "x = 1", "x = 2", replace_all=True)
    assert result.output["lines"] == [1, 3, 5]
    assert (workspace / "file").read_text() == "x = 2\ny\nx = 2\n\nx = 2\n"


async def test_a_near_miss_shows_the_lines_that_were_meant(workspace: Path) -> None:
    (workspace / "file").write_text("import os\n\ndef main() -> None:\n\tprint('hello')\n\nmain()\n")
    with pytest.raises(ValueError, match=r"nearest lines, from line 2:\n\ndef main\(\) -> None:\n\tprint\('hello'\)"):
        await edit(workspace, "    print('hello')", "pass")
    with pytest.raises(ValueError, match="Nothing like its first line"):
        await edit(workspace, "somewhere else entirely", "x")


@pytest.mark.parametrize("data", [b"one\0", b"caf\xe9 one"])
async def test_what_is_no_text_is_not_edited(workspace: Path, data: bytes) -> None:
    (workspace / "file").write_bytes(data)
    with pytest.raises(ValueError, match="cannot be edited"):
        await edit(workspace, "one", "two")
    assert (workspace / "file").read_bytes() == data


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"old_text": ""}, "is empty"),
        ({"old_text": "one", "new_text": "one"}, "nothing would change"),
        ({"new_text": "\ud800"}, "not valid text"),
        ({"old_text": 1}, "must be given, as text"),
        ({"path": "\0"}, "NUL"),
    ],
)
async def test_arguments_that_make_no_sense_are_explained(workspace: Path, args: dict[str, Any], words: str) -> None:
    (workspace / "file").write_text("one")
    with pytest.raises(ValueError, match=words):
        await edit(workspace, "one", "two", **args)


async def test_a_file_that_is_missing_too_large_or_outside_is_refused(workspace: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await edit(workspace, "one", "two")
    with pytest.raises(PermissionError):
        await edit(workspace, "root", "toor", path="/etc/passwd")
    with (workspace / "file").open("wb") as file:
        os.truncate(file.fileno(), 6_000_000)
    with pytest.raises(ValueError, match="files of up to"):
        await edit(workspace, "one", "two")


async def test_a_file_without_anything_near_is_refused_quickly_however_large(workspace: Path) -> None:
    (workspace / "file").write_text("ab ab ab\n" * 400_000)
    with pytest.raises(ValueError, match="Read the file"):
        await edit(workspace, "ab ab ac", "x")


def test_the_policy_is_told_which_argument_is_the_path() -> None:
    assert EDIT_FILE.path_arguments == ("path",)
    assert EDIT_FILE.effect is Effect.CHANGES_WORKSPACE


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(100))
@given(before=st.text("ab\n", max_size=20), old=st.text("ab\n", min_size=1, max_size=4), new=st.text("abc", max_size=4))
async def test_an_edit_is_a_replacement_of_the_only_match_or_nothing(
    tmp_path: Path, before: str, old: str, new: str
) -> None:
    (tmp_path / "file").write_text(before)
    try:
        await edit(tmp_path, old, new)
    except ValueError:
        assert before.count(old) != 1 or old == new
        assert (tmp_path / "file").read_text() == before
    else:
        assert before.count(old) == 1
        assert (tmp_path / "file").read_text() == before.replace(old, new)


async def test_a_replacement_by_itself_is_refused_with_the_lines_that_are_there(workspace: Path) -> None:
    (workspace / "file").write_text("name: shop\nport: 80\nlevel: info\n")
    with pytest.raises(ValueError, match="are the same: nothing would change") as caught:
        await edit(workspace, "port: 80", "port: 80")
    assert str(caught.value).endswith("from line 1:\nname: shop\nport: 80\nlevel: info")
    with pytest.raises(ValueError, match="Nor does it occur in the file"):
        await edit(workspace, "port: 8O", "port: 8O")
