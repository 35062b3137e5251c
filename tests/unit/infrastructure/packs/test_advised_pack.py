"""What is said beside the results of tools: which file is broken, and what a command has overlooked."""

import shlex
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import ToolContext, ToolResult
from agent_fabric.infrastructure.packs.engineering import build_engineering_pack
from agent_fabric.infrastructure.packs.wrapped_pack import AdvisedPack
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox

CONTEXT = ToolContext(run_id=RunId("run"), call_id=CallId("call"), timeout_s=10, network_allowed=False)


def advised(workspace: Path, tool: str = "shell") -> Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]:
    sandbox = UnconfinedSandbox(workspace, "run")
    pack = AdvisedPack(build_engineering_pack(sandbox), sandbox)
    return lambda args, context: pack.execute_tool(tool, args, context)


@pytest.mark.parametrize(
    ("tool", "breaks", "mends"),
    [
        ("write_file", {"content": "x = 1\ndef f(:\n"}, {"content": "x = 1\n"}),
        ("edit_file", {"old_text": "2", "new_text": "("}, {"old_text": "(", "new_text": "2"}),
        ("fix_line", {"line": 2, "new": "y = ("}, {"line": 2, "new": "y = 2"}),
        ("shell", {"command": "echo 'y = (' > 'a b.py'"}, {"command": "echo 'y = 2' > 'a b.py'"}),
    ],
)
async def test_whatever_writes_says_what_it_broke(
    tmp_path: Path, tool: str, breaks: Mapping[str, Any], mends: Mapping[str, Any]
) -> None:
    (tmp_path / "a b.py").write_text("x = 1\ny = 2\n")
    use = advised(tmp_path, tool)
    path = {} if tool == "shell" else {"path": "a b.py"}
    told = (await use({**path, **breaks}, CONTEXT)).output["broken"]["a b.py"]
    assert told.startswith("not valid Python, line ")
    assert "broken" not in (await use({**path, **mends}, CONTEXT)).output


async def test_json_that_is_none_any_more_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1,\n "b": 2}\n')
    edit = advised(tmp_path, "edit_file")
    result = await edit({"path": "a.json", "old_text": "1,", "new_text": "1"}, CONTEXT)
    assert "not valid JSON" in result.output["broken"]["a.json"]
    assert "line 2" in result.output["broken"]["a.json"]
    text = {"path": "notes.txt", "content": "def f(:"}
    assert "broken" not in (await advised(tmp_path, "write_file")(text, CONTEXT)).output


async def test_a_tool_that_is_not_there_is_not_advised_on(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        await advised(tmp_path, "finish_task")({}, CONTEXT)


async def test_a_command_that_breaks_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    return 1\n")
    shell = advised(tmp_path)
    result = await shell({"command": "sed -i 's/ /-/g' a.py"}, CONTEXT)
    assert list(result.output["broken"]) == ["a.py"]


async def test_a_program_that_only_lists_values_is_none(tmp_path: Path) -> None:
    shell = advised(tmp_path)
    listed = await shell({"command": "printf '1\\n4\\n9\\n' > a.py"}, CONTEXT)
    assert listed.output["broken"] == {"a.py": "not a program, it only lists values, and does nothing with them"}
    for text in ('"""Says what."""', "", "x = 1", "print(1)", "...", "def f(): pass"):
        (tmp_path / "b.py").unlink(missing_ok=True)
        result = await shell({"command": f"echo {shlex.quote(text)} > b.py"}, CONTEXT)
        assert "broken" not in result.output


async def test_a_count_of_lines_says_that_a_table_has_a_line_of_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,age\nAda,36\nKim,20\n")
    shell = advised(tmp_path)
    for command in ("wc -l a.csv", "wc -l < a.csv", "cat a.csv && grep -c '' a.csv", "cat a.csv | wc -l"):
        hint = (await shell({"command": command}, CONTEXT)).output["hint"]
        assert hint.startswith("3 counts line 1 of a.csv, too, which only names the columns: there are 2 rows.")
        assert hint.endswith("write 2, not 3.")
    described = "a.csv is a table of 2 rows below line 1, which names the columns 1 name, 2 age; ',' divides columns."
    assert (await shell({"command": "grep -c A a.csv"}, CONTEXT)).output["hint"] == described
    assert "','" in (await shell({"command": "awk '{s += $2} END {print s}' a.csv"}, CONTEXT)).output["hint"]
    for command in ("awk -F, 'NR > 1 {s += $2} END {print s}' a.csv", "cat a.csv", "cut -d, -f1 a.csv"):
        assert "hint" not in (await shell({"command": command}, CONTEXT)).output


async def test_a_count_that_is_one_too_many_comes_with_the_command_that_puts_it_right(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,age\nAda,36\nKim,20\n")
    shell = advised(tmp_path)
    hint = (await shell({"command": "wc -l a.csv > n.txt"}, CONTEXT)).output["hint"]
    assert hint.startswith("3 in n.txt counts line 1 of a.csv, too")
    right = await shell({"command": hint.rpartition("run: ")[2]}, CONTEXT)
    assert (tmp_path / "n.txt").read_text() == "2\n"
    assert "hint" not in right.output


async def test_adding_up_a_column_of_words_names_the_column_of_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,shelf,quantity\nbolts,A1,120\nnuts,A2,80\n")
    shell = advised(tmp_path)
    command = "awk -F, 'NR > 1 {s += $2} END {print s}' a.csv > sum.txt"
    hint = (await shell({"command": command}, CONTEXT)).output["hint"]
    assert hint.startswith("Column 2 of a.csv, shelf, has no numbers. Column 3 quantity has.")
    right = await shell({"command": hint.rpartition("run: ")[2]}, CONTEXT)
    assert (tmp_path / "sum.txt").read_text() == "200\n"
    assert "hint" not in right.output
    (tmp_path / "a.csv").write_text("item,quantity,price\nbolts,120,3\n")
    told = (await shell({"command": command.replace("$2", "$1")}, CONTEXT)).output["hint"]
    assert told == "Column 1 of a.csv, item, has no numbers. These columns have: 2 quantity, 3 price."


async def test_half_of_a_setting_that_is_left_comes_with_the_command_that_deletes_it(tmp_path: Path) -> None:
    (tmp_path / "a.env").write_text("NAME=shop\nTOKEN=unused\n")
    shell = advised(tmp_path)
    hint = (await shell({"command": "sed -i 's/TOKEN//g' a.env"}, CONTEXT)).output["hint"]
    await shell({"command": hint.rpartition("run: ")[2]}, CONTEXT)
    assert (tmp_path / "a.env").read_text() == "NAME=shop\n"
    assert "hint" not in (await shell({"command": "sed -i 's/shop//' a.env"}, CONTEXT)).output


async def test_a_replacement_of_texts_with_slashes_is_told_its_other_divider(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("http://a\n")
    shell = advised(tmp_path)
    failed = await shell({"command": "sed -i 's/http:///https:///g' a.md"}, CONTEXT)
    assert "sed -i 's|old/text|new/text|g' a.md" in failed.output["hint"]
    assert "hint" not in (await shell({"command": "sed -i 's/a' a.md"}, CONTEXT)).output


async def test_a_replacement_that_hits_nothing_shows_the_lines_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{\n  "name": "api",\n  "replicas": 2\n}\n')
    shell = advised(tmp_path)
    missed = await shell({"command": "sed -i 's/replicas: 2/replicas: 5/' a.json"}, CONTEXT)
    assert missed.output["changed_files"] == {}
    assert missed.output["hint"].startswith("In a.json 'replicas: 2' does not occur.")
    assert '  "replicas": 2\n' in missed.output["hint"]
    for command in (
        "sed -i 's/repl.*: 3/x/' a.json",
        'sed -i \'s/"replicas": 2/"replicas": 5/\' a.json',
        "sed -n 1p a.json",
    ):
        assert "hint" not in (await shell({"command": command}, CONTEXT)).output


async def test_a_replacement_inside_longer_words_is_told_with_the_way_back(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"replicas": 2, "port": 80,\n "memory": 256}\n')
    shell = advised(tmp_path)
    hint = (await shell({"command": "sed -i 's/2/5/' a.json"}, CONTEXT)).output["hint"]
    assert "256 became 556" in hint
    await shell({"command": hint.rpartition("put it back: ")[2]}, CONTEXT)
    assert (tmp_path / "a.json").read_text() == '{"replicas": 5, "port": 80,\n "memory": 256}\n'


async def test_a_replacement_in_many_files_names_those_that_still_have_the_text(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "README.md"):
        (tmp_path / name).write_text("# Usr\n")
    shell = advised(tmp_path)
    command = "find . -name '*.py' -exec sed -i 's/Usr/User/g' {} +"
    for _ in ("it changes two files", "it changes nothing more"):
        hint = (await shell({"command": command}, CONTEXT)).output["hint"]
        assert hint == "'Usr' is still there. To replace it, run: sed -i 's/Usr/User/g' README.md"
    only = await shell({"command": "sed -i 's/Usr/User/g' README.md"}, CONTEXT)
    assert "hint" not in only.output


async def test_a_failure_names_the_program_that_it_is_about(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("x = 1\n")
    (tmp_path / "adds.py").write_text("def add(a, b):\n    return a - b\n")
    (tmp_path / "test_adds.py").write_text("from adds import add\n\nassert add(1, 1) == 2\n")
    shell = advised(tmp_path)
    failed = (await shell({"command": "python3 test_adds.py"}, CONTEXT)).output
    assert (failed["failing_program"], failed["its_lines"]) == ("adds.py", "1: def add(a, b):\n2:     return a - b")
    (tmp_path / "adds.py").write_text("def add(a, b):\n    return a + c  # later\n")
    result = await shell({"command": "cd . && PYTHONPATH=. python3 ./test_adds.py"}, CONTEXT)
    assert result.output["failures"] == ["NameError: name 'c' is not defined in this line: return a + c  # later"]
    (tmp_path / "test_adds.py").write_text("import adds, other\n\nassert other.x == 2\n")
    assert "failing_program" not in (await shell({"command": "python3 test_adds.py"}, CONTEXT)).output
