import os
import time
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.search import SEARCH_FILES, SearchFiles

CONTEXT = ToolContext(run_id=RunId("run"), call_id=CallId("call"), timeout_s=10, network_allowed=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    for path, text in {
        "src/a.py": "import os\nprint('Hello')\r\n",
        "src/deep/b.ts": "// hello (there)\n",
        "README": "hello hello\nbye",
        "node_modules/x.py": "hello",
        ".git/config": "hello",
    }.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(text, newline="")
    (workspace / "binary").write_bytes(b"hello\0")
    (workspace / "latin").write_bytes(b"caf\xe9 hello\n")
    (tmp_path / "secret").write_text("hello")
    (workspace / "way").symlink_to(tmp_path / "secret")
    os.mkfifo(workspace / "pipe")
    return workspace


async def search(workspace: Path, pattern: str, **more: Any) -> dict[str, Any]:
    limits = {name: more.pop(name) for name in list(more) if name.startswith("max_")}
    tool = SearchFiles(UnconfinedSandbox(workspace, "run"), **limits)
    return dict((await tool({"pattern": pattern} | more, CONTEXT)).output)


async def test_lines_are_found_with_their_numbers_each_once(workspace: Path) -> None:
    found = await search(workspace, "hello")
    assert found["matches"] == ["README:1: hello hello", "latin:1: caf� hello", "src/deep/b.ts:1: // hello (there)"]
    assert found["files_left_out"] == 3
    assert "truncated" not in found


async def test_a_text_is_taken_as_it_is_and_an_expression_as_one(workspace: Path) -> None:
    assert (await search(workspace, "(there)"))["matches"] == ["src/deep/b.ts:1: // hello (there)"]
    assert (await search(workspace, "^print.*o'", regex=True))["matches"] == ["src/a.py:2: print('Hello')"]
    assert (await search(workspace, "^bye$", regex=True))["matches"] == ["README:2: bye"]
    assert len((await search(workspace, "HELLO", ignore_case=True))["matches"]) == 4
    assert len((await search(workspace, "(THERE)", ignore_case=True))["matches"]) == 1


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("*.py", ".", ["src/a.py"]),
        ("src/**/*.ts", ".", ["src/deep/b.ts"]),
        ("src/**/*.py", ".", ["src/a.py"]),
        ("", "src/deep", ["src/deep/b.ts"]),
        ("", "README", ["README"]),
        ("[", ".", []),
    ],
)
async def test_a_search_keeps_to_a_folder_and_to_names(
    workspace: Path, glob: str, path: str, expected: list[str]
) -> None:
    found = await search(workspace, "hello", glob=glob, path=path, ignore_case=True)
    assert [match.split(":")[0] for match in found["matches"]] == expected


@pytest.mark.parametrize("path", ["..", "/", "way", "../secret", "nowhere", ""])
async def test_nothing_outside_is_ever_found(workspace: Path, path: str) -> None:
    try:
        found = await search(workspace, "hello", path=path)
    except OSError:
        return
    assert not any("secret" in match or "way" in match for match in found["matches"])


async def test_an_expression_that_would_hang_others_takes_no_time(workspace: Path) -> None:
    (workspace / "evil").write_text("a" * 200_000 + "!")
    begun = time.monotonic()
    assert (await search(workspace, "(a+)+$", regex=True, path="evil"))["matches"] == []
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("pattern", ["(", "(?=x)", r"(a)\1", "[", "x" * 1_001, "", "(((a{100}){100}){100}){100}"])
async def test_an_expression_that_cannot_be_used_is_explained(workspace: Path, pattern: str) -> None:
    with pytest.raises(ValueError, match="'pattern'"):
        await search(workspace, pattern, regex=True)


async def test_a_match_everywhere_ends_with_the_first_hundred(workspace: Path) -> None:
    (workspace / "many").write_text("\n" * 1_000_000)
    found = await search(workspace, "x*", regex=True)
    assert len(found["matches"]) == 100
    assert found["truncated"] is True
    assert "first 100" in found["hint"]


async def test_a_long_line_is_shown_around_the_match(workspace: Path) -> None:
    (workspace / "long").write_text("y" * 100_000 + "needle" + "z" * 100_000)
    (match,) = (await search(workspace, "needle"))["matches"]
    assert "needle" in match
    assert len(match) < 300


async def test_large_files_long_searches_and_much_data_are_cut_short_and_said(workspace: Path) -> None:
    (workspace / "huge").write_bytes(b"hello\n" * 1_000)
    assert (await search(workspace, "hello", max_file_bytes=100))["files_left_out"] == 4
    assert "too much to read" in (await search(workspace, "hello", max_total_bytes=1))["hint"]
    assert "too long" in (await search(workspace, "hello", max_seconds=-1.0))["hint"]


def test_the_policy_is_told_which_argument_is_the_path() -> None:
    assert SEARCH_FILES.path_arguments == ("path",)
