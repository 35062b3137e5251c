import json
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.files import LIST_FILES, READ_FILE, WRITE_FILE, ListFiles, ReadFile, WriteFile

CONTEXT = ToolContext(run_id=RunId("run"), call_id=CallId("call"), timeout_s=10, network_allowed=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (tmp_path / "secret").write_text("outside")
    return workspace


@pytest.fixture
def sandbox(workspace: Path) -> UnconfinedSandbox:
    return UnconfinedSandbox(workspace, "run")


async def test_a_file_is_written_and_read_back(sandbox: UnconfinedSandbox) -> None:
    text = "grüße\r\n\ttabs and \N{PILE OF POO}\n"
    written = await WriteFile(sandbox)({"path": "src/a.txt", "content": text}, CONTEXT)
    assert written == ToolResult(
        output={"path": "src/a.txt", "bytes": len(text.encode()), "created": True}, changed=True, wrote=("src/a.txt",)
    )
    again = await WriteFile(sandbox)({"path": "src/a.txt", "content": text}, CONTEXT)
    assert again.output["created"] is False
    read = await ReadFile(sandbox)({"path": "src/a.txt"}, CONTEXT)
    assert read == ToolResult(output={"path": "src/a.txt", "content": text, "size": len(text.encode())})


async def test_a_long_file_is_cut_between_characters_and_says_so(sandbox: UnconfinedSandbox, workspace: Path) -> None:
    (workspace / "long").write_text("é" * 10, encoding="utf-8")
    read = await ReadFile(sandbox, max_bytes=5)({"path": "long"}, CONTEXT)
    assert read.output["content"] == "éé"
    assert read.output["size"] == 20
    assert read.output["truncated"] is True
    assert "first 5 of 20 bytes" in read.output["hint"]


@pytest.mark.parametrize("data", [b"\x89PNG\r\n", b"text with \0 in it", b"caf\xe9", b"cut: \xc3"])
async def test_what_is_not_text_is_said_to_be_binary(sandbox: UnconfinedSandbox, workspace: Path, data: bytes) -> None:
    (workspace / "data").write_bytes(data)
    read = await ReadFile(sandbox)({"path": "data"}, CONTEXT)
    assert read.output["binary"] is True
    assert read.output["size"] == len(data)
    assert "content" not in read.output
    assert "UTF-8" in read.output["hint"]


async def test_files_are_listed_by_the_names_that_the_other_tools_take(
    sandbox: UnconfinedSandbox, workspace: Path
) -> None:
    for path in ("src/b.py", "src/a.py", "README.md"):
        await WriteFile(sandbox)({"path": path, "content": ""}, CONTEXT)
    everything = {"files": ["README.md", "src/", "src/a.py", "src/b.py"]}
    assert (await ListFiles(sandbox)({}, CONTEXT)).output == everything
    assert (await ListFiles(sandbox)({"path": ""}, CONTEXT)).output == everything
    assert (await ListFiles(sandbox)({"path": "src"}, CONTEXT)).output == {"files": ["src/a.py", "src/b.py"]}
    cut = await ListFiles(sandbox, max_entries=2)({}, CONTEXT)
    assert cut == ToolResult(output={"files": ["README.md", "src/"], "truncated": True})


async def test_content_that_is_too_large_or_no_text_is_refused_before_anything_is_written(
    sandbox: UnconfinedSandbox, workspace: Path
) -> None:
    with pytest.raises(ValueError, match="is 10000001 bytes; one call may write 10000000"):
        await WriteFile(sandbox)({"path": "big", "content": "x" * 10_000_001}, CONTEXT)
    with pytest.raises(ValueError, match="not valid text at character 2"):
        await WriteFile(sandbox)({"path": "bad", "content": "ab\ud83d"}, CONTEXT)
    assert (await sandbox.list_files(".", max_entries=1)) == ([], False)


@pytest.mark.parametrize("args", [{}, {"path": None}, {"path": 3}, {"path": ["a"]}])
async def test_a_missing_or_wrong_argument_is_named(sandbox: UnconfinedSandbox, args: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="'path' must be given, as text"):
        await ReadFile(sandbox)(args, CONTEXT)
    with pytest.raises(ValueError, match="'content' must be given, as text"):
        await WriteFile(sandbox)({"path": "a"}, CONTEXT)


@pytest.mark.proves("AF-120")
@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../secret"])
async def test_no_file_tool_leaves_the_workspace(sandbox: UnconfinedSandbox, workspace: Path, path: str) -> None:
    (workspace / "a").mkdir()
    for tool in (ReadFile(sandbox), WriteFile(sandbox), ListFiles(sandbox)):
        with pytest.raises(PermissionError) as caught:
            await tool({"path": path, "content": "x"}, CONTEXT)
        assert str(caught.value) == f"{path!r} leads out of the workspace"
    assert (workspace.parent / "secret").read_text() == "outside"


async def test_a_missing_file_is_an_error_that_does_not_tell_where_the_workspace_lies(
    sandbox: UnconfinedSandbox, workspace: Path
) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        await ReadFile(sandbox)({"path": "src/none.py"}, CONTEXT)
    assert str(caught.value) == "[Errno 2] No such file or directory: 'src/none.py'"


def test_what_each_tool_does_to_the_world_is_declared() -> None:
    specs = (READ_FILE, WRITE_FILE, LIST_FILES)
    assert {spec.name: spec.effect for spec in specs} == {
        "read_file": Effect.READS,
        "write_file": Effect.IDEMPOTENT,
        "list_files": Effect.READS,
    }
    assert len(json.dumps([[spec.description, spec.parameters] for spec in specs])) < 900


async def test_writing_back_what_is_there_changes_nothing_and_says_so(sandbox: UnconfinedSandbox) -> None:
    text = "x = 1\n" * 300
    await WriteFile(sandbox)({"path": "a.txt", "content": text}, CONTEXT)
    again = await WriteFile(sandbox)({"path": "a.txt", "content": text}, CONTEXT)
    assert again.output["unchanged"] is True
    assert "this text already" in again.output["hint"]
    assert not again.changed
    assert again.wrote == ()
    other = await WriteFile(sandbox)({"path": "a.txt", "content": f"{text}#"}, CONTEXT)
    assert "unchanged" not in other.output
    assert other.changed


async def test_of_a_program_that_is_written_again_the_lines_are_shown_that_changed(sandbox: UnconfinedSandbox) -> None:
    before = "def f(a):\n    # first\n    return a\n"
    await WriteFile(sandbox)({"path": "a.py", "content": before}, CONTEXT)
    again = await WriteFile(sandbox)({"path": "a.py", "content": before.replace("first", "1st")}, CONTEXT)
    assert again.output["changed_lines"] == "-    # first\n+    # 1st"
    assert "replaced" not in again.output


async def test_empty_lines_alone_mend_no_program(sandbox: UnconfinedSandbox) -> None:
    await WriteFile(sandbox)({"path": "a.py", "content": "x = 1\n\n\ny = 2\n"}, CONTEXT)
    again = await WriteFile(sandbox)({"path": "a.py", "content": "x = 1\n\ny = 2"}, CONTEXT)
    assert again.output["unchanged"] is True
    await WriteFile(sandbox)({"path": "a.txt", "content": "x\n\ny\n"}, CONTEXT)
    assert "unchanged" not in (await WriteFile(sandbox)({"path": "a.txt", "content": "x\ny\n"}, CONTEXT)).output


async def test_functions_that_a_program_has_lost_are_named(sandbox: UnconfinedSandbox) -> None:
    write = WriteFile(sandbox)
    await write({"path": "a.py", "content": "def one():\n    return 1\n\n\nclass Two:\n    pass\n"}, CONTEXT)
    lost = await write({"path": "a.py", "content": "class Two:\n    pass\n\n\ndef three():\n    return 3\n"}, CONTEXT)
    assert lost.output["gone"] == ["one"]
    assert lost.output["replaced"].startswith("def one():")
    kept = await write({"path": "a.py", "content": "class Two:\n    pass\n\n\ndef three():\n    return 4\n"}, CONTEXT)
    assert "gone" not in kept.output
