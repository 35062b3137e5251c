import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agent_fabric.application.ports.sandbox import CommandOutcome
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.findings import ProofKind, TestCount
from agent_fabric.domain.tools.specs import Effect, ToolContext
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.shell import SHELL, RunShell

CONTEXT = ToolContext(run_id=RunId("run"), call_id=CallId("call"), timeout_s=7.5, network_allowed=False)


@dataclass
class ScriptedSandbox:
    """Sandbox in which every command ends in the same way."""

    outcome: CommandOutcome
    ran: list[tuple[str, float]] = field(default_factory=list)
    level: str = "C"

    async def run_command(
        self,
        command: str,
        *,
        timeout_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> CommandOutcome:
        self.ran.append((command, timeout_s))
        return self.outcome

    async def read_file(self, path: str, *, max_bytes: int) -> tuple[bytes, int]:
        raise FileNotFoundError(path)

    async def write_file(self, path: str, data: bytes) -> bool:
        raise NotImplementedError

    async def list_files(self, path: str, *, max_entries: int) -> tuple[list[str], bool]:
        return [], False

    async def end_leftovers(self) -> int:
        raise NotImplementedError


def ending(exit_code: int = 0, stdout: bytes = b"", *, dropped: int = 0, timed_out: bool = False) -> ScriptedSandbox:
    return ScriptedSandbox(
        CommandOutcome(exit_code=exit_code, stdout=stdout, stderr=b"e\n", stdout_dropped=dropped, timed_out=timed_out)
    )


async def test_a_command_runs_for_the_time_of_its_call_and_its_end_is_the_result() -> None:
    sandbox = ending(3, b"caf\xe9\n")
    result = await RunShell(sandbox)({"command": "ls"}, CONTEXT)
    assert result.output == {"exit_code": 3, "stdout": "caf\N{REPLACEMENT CHARACTER}\n", "stderr": "e\n"}
    assert sandbox.ran == [("ls", 7.5)]


async def test_running_out_of_time_is_a_result_for_the_model() -> None:
    result = await RunShell(ending(-15, timed_out=True))({"command": "sleep 9"}, CONTEXT)
    assert result.output["timed_out"] is True
    assert result.output["exit_code"] == -15
    assert result.output["hint"] == "Ended after 7.5 s."


async def test_a_note_stands_where_output_was_dropped() -> None:
    result = await RunShell(ending(stdout=b"startend!!", dropped=1234))({"command": "seq"}, CONTEXT)
    assert result.output["stdout"] == "start\n[… 1234 bytes left out …]\nend!!"
    assert result.output["stdout_dropped"] == 1234
    assert "stderr_dropped" not in result.output


@pytest.mark.parametrize("size", range(1, 9))
async def test_no_part_of_a_secret_stands_where_output_was_dropped(size: int) -> None:
    secret = "pässw0rd"
    data = secret.encode()
    kept = data[:size].rjust(40, b"a") + data[size:].ljust(40, b"b")
    context = replace(CONTEXT, environment={"FABRIC_SECRET_X": secret})
    result = await RunShell(ending(stdout=kept, dropped=9))({"command": "seq"}, context)
    assert set(result.output["stdout"].replace("\n[… 9 bytes left out …]\n", "")) == {"a", "b"}


@pytest.mark.proves("AF-124")
async def test_only_a_test_that_succeeded_is_proof() -> None:
    passed = await RunShell(ending(0, stdout=b"2 passed in 0.01s\n"))({"command": "pytest -q"}, CONTEXT)
    assert (passed.proved, passed.proof_kind, passed.tests) == (
        "pytest -q",
        ProofKind.TESTS,
        TestCount(ran=2, passed=2, failed=0),
    )
    for outcome in (ending(1), ending(0, timed_out=True), ending(-9)):
        assert not (await RunShell(outcome)({"command": "pytest -q"}, CONTEXT)).proved
    assert not (await RunShell(ending(0))({"command": "ls"}, CONTEXT)).proved


async def test_a_file_of_tests_that_calls_none_is_told_with_the_command_that_would() -> None:
    result = await RunShell(ending(0))({"command": "python3 tests/test_dates.py"}, CONTEXT)
    assert not result.proved
    assert "no test was executed" in result.output["not_proven"]
    assert "python3 -m pytest tests/test_dates.py" in result.output["not_proven"]


async def test_a_file_with_the_name_of_a_test_whose_checks_run_with_it_is_a_program(tmp_path: Path) -> None:
    sandbox = UnconfinedSandbox(tmp_path, RunId("run"))
    (tmp_path / "calc.py").write_text("def add(a, b):\n    return a + b\n")
    (tmp_path / "test_calc.py").write_text("from calc import add\n\nassert add(2, 3) == 5\nprint('ok')\n")
    result = await RunShell(sandbox)({"command": "python3 test_calc.py"}, CONTEXT)
    assert (result.proved, result.proof_kind, result.tests) == ("python3 test_calc.py", ProofKind.PROGRAM, None)
    (tmp_path / "test_calc.py").write_text("def test_it():\n    assert 1 + 1 == 3\n")
    assert not (await RunShell(sandbox)({"command": "python3 test_calc.py"}, CONTEXT)).proved


async def test_a_command_that_may_have_written_counts_as_a_change_however_it_ended() -> None:
    for outcome in (ending(0), ending(1), ending(-9, timed_out=True)):
        assert (await RunShell(outcome)({"command": "echo x > a.py"}, CONTEXT)).changed
    assert not (await RunShell(ending(0))({"command": "ls"}, CONTEXT)).changed


@pytest.mark.parametrize("args", [{}, {"command": 3}])
async def test_a_missing_command_is_named(args: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="'command' must be given, as text"):
        await RunShell(ending())(args, CONTEXT)


async def test_it_really_runs_in_the_workspace(tmp_path: Path) -> None:
    result = await RunShell(UnconfinedSandbox(tmp_path, "run"))({"command": "echo hi | tee made"}, CONTEXT)
    assert result.output == {"exit_code": 0, "stdout": "hi\n", "stderr": "", "changed_files": {"made": "hi\n"}}
    assert (tmp_path / "made").read_text() == "hi\n"


def test_what_the_tool_does_to_the_world_is_declared() -> None:
    assert (SHELL.name, SHELL.effect, SHELL.timeout_s) == ("shell", Effect.CHANGES_WORKSPACE, 120)
    assert SHELL.command_argument in SHELL.parameters["properties"]
    assert len(json.dumps([SHELL.description, SHELL.parameters])) < 250


@pytest.mark.parametrize(
    "command",
    [
        "sort a.txt > a.txt",
        "sort < a.txt > ./a.txt",
        "sort a.txt | uniq > a.txt",
        "cp a.txt b; sed s/x/y/ a.txt > a.txt",
    ],
)
async def test_a_command_that_would_empty_what_it_reads_is_not_run(tmp_path: Path, command: str) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    with pytest.raises(ValueError, match=r"empties .*a\.txt before the command reads it.*&& mv .*a\.txt\.new"):
        await RunShell(UnconfinedSandbox(tmp_path, "run"))({"command": command}, CONTEXT)
    assert (tmp_path / "a.txt").read_text() == "x\n"


@pytest.mark.parametrize(
    "command",
    ["echo a.txt > a.txt", "sort a.txt > b.txt", "sort a.txt >> a.txt", "sort -o a.txt a.txt", "cat new.txt > new.txt"],
)
async def test_other_commands_that_write_are_run(tmp_path: Path, command: str) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    assert "exit_code" in (await RunShell(UnconfinedSandbox(tmp_path, "run"))({"command": command}, CONTEXT)).output


async def test_a_command_that_breaks_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    return 1\n")
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
    result = await shell({"command": "sed -i 's/ /-/g' a.py"}, CONTEXT)
    assert list(result.output["broken"]) == ["a.py"]


async def test_what_failed_is_said_before_the_output(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import unittest\n\n\nclass T(unittest.TestCase):\n"
        "    def test_sum(self):\n        self.assertEqual(1 + 1, 3)\n"
    )
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
    result = await shell({"command": "python3 -m unittest test_a"}, CONTEXT)
    assert result.output["failures"] == ["AssertionError: 2 != 3 in this line: self.assertEqual(1 + 1, 3)"]
    assert list(result.output)[:2] == ["exit_code", "failures"]


async def test_a_call_of_a_test_that_gives_something_else_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import unittest\n\n\nclass T(unittest.TestCase):\n"
        "    def test_len(self):\n        self.assertEqual(len([1, 2]), 3)\n"
    )
    result = await RunShell(UnconfinedSandbox(tmp_path, "run"))({"command": "python3 -m unittest test_a"}, CONTEXT)
    assert result.output["failures"] == ["len([1, 2]) gave 2 and must give 3"]


async def test_a_search_that_finds_nothing_shows_the_lines_that_are_like_it(tmp_path: Path) -> None:
    (tmp_path / "a.ini").write_text("[web]\nport = 80\n\n[mail]\nport = 25\nhost = m\n")
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
    hint = (await shell({"command": "grep -oP '(?<=port=)[0-9]+' a.ini"}, CONTEXT)).output["hint"]
    assert hint == "No line of a.ini matches that. With 'port' there are: [web] port = 80; [mail] port = 25."
    assert (await shell({"command": "grep user a.ini"}, CONTEXT)).output["hint"] == "No line of a.ini has 'user'."
    for command in ("grep host a.ini", "grep x a.ini", "grep -r port= .", "grep port= none.ini", "false"):
        assert "hint" not in (await shell({"command": command}, CONTEXT)).output


async def test_a_program_that_only_lists_values_is_none(tmp_path: Path) -> None:
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
    listed = await shell({"command": "printf '1\\n4\\n9\\n' > a.py"}, CONTEXT)
    assert listed.output["broken"] == {"a.py": "not a program, it only lists values, and does nothing with them"}
    for text in ('"""Says what."""', "", "x = 1", "print(1)", "...", "def f(): pass"):
        (tmp_path / "b.py").unlink(missing_ok=True)
        result = await shell({"command": f"echo {shlex.quote(text)} > b.py"}, CONTEXT)
        assert "broken" not in result.output


async def test_an_error_that_has_one_remedy_is_told_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('print("Sum: " + 3)\n')
    result = await RunShell(UnconfinedSandbox(tmp_path, "run"))({"command": "python3 a.py"}, CONTEXT)
    assert "to str (put str( ) around what is no text)" in result.output["failures"][0]


async def test_a_count_of_lines_says_that_a_table_has_a_line_of_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,age\nAda,36\nKim,20\n")
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
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
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
    hint = (await shell({"command": "wc -l a.csv > n.txt"}, CONTEXT)).output["hint"]
    assert hint.startswith("3 in n.txt counts line 1 of a.csv, too")
    right = await shell({"command": hint.rpartition("run: ")[2]}, CONTEXT)
    assert (tmp_path / "n.txt").read_text() == "2\n"
    assert "hint" not in right.output


async def test_adding_up_a_column_of_words_names_the_column_of_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,shelf,quantity\nbolts,A1,120\nnuts,A2,80\n")
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
    command = "awk -F, 'NR > 1 {s += $2} END {print s}' a.csv > sum.txt"
    hint = (await shell({"command": command}, CONTEXT)).output["hint"]
    assert hint.startswith("Column 2 of a.csv, shelf, has no numbers. Column 3 quantity has.")
    right = await shell({"command": hint.rpartition("run: ")[2]}, CONTEXT)
    assert (tmp_path / "sum.txt").read_text() == "200\n"
    assert "hint" not in right.output
    (tmp_path / "a.csv").write_text("item,quantity,price\nbolts,120,3\n")
    told = (await shell({"command": command.replace("$2", "$1")}, CONTEXT)).output["hint"]
    assert told == "Column 1 of a.csv, item, has no numbers. These columns have: 2 quantity, 3 price."


async def test_a_name_beside_a_count_comes_with_the_command_for_the_number_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two\nthree\n")
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
    hint = (await shell({"command": "wc -w a.txt > n.txt"}, CONTEXT)).output["hint"]
    await shell({"command": hint.rpartition("run: ")[2]}, CONTEXT)
    assert (tmp_path / "n.txt").read_text().strip() == "3"
    for command in ("wc a.txt > n.txt", "wc -w < a.txt > n.txt", "wc -w a.txt", "wc -w a.txt n.txt > m.txt"):
        assert "hint" not in (await shell({"command": command}, CONTEXT)).output


async def test_the_name_of_the_one_file_that_was_searched_is_not_what_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "a.csv").write_text("Ada,Bern\nKim,Rome\n")
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
    hint = (await shell({"command": "grep -rl Bern a.csv > b.csv"}, CONTEXT)).output["hint"]
    await shell({"command": hint.rpartition("run: ")[2]}, CONTEXT)
    assert (tmp_path / "b.csv").read_text() == "Ada,Bern\n"
    for command in ("grep -rl Bern . > found.txt", "grep Bern a.csv > c.csv", "grep -l Bern a.csv"):
        assert "hint" not in (await shell({"command": command}, CONTEXT)).output


async def test_half_of_a_setting_that_is_left_comes_with_the_command_that_deletes_it(tmp_path: Path) -> None:
    (tmp_path / "a.env").write_text("NAME=shop\nTOKEN=unused\n")
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
    hint = (await shell({"command": "sed -i 's/TOKEN//g' a.env"}, CONTEXT)).output["hint"]
    await shell({"command": hint.rpartition("run: ")[2]}, CONTEXT)
    assert (tmp_path / "a.env").read_text() == "NAME=shop\n"
    assert "hint" not in (await shell({"command": "sed -i 's/shop//' a.env"}, CONTEXT)).output


async def test_a_replacement_of_texts_with_slashes_is_told_its_other_divider(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("http://a\n")
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
    failed = await shell({"command": "sed -i 's/http:///https:///g' a.md"}, CONTEXT)
    assert "sed -i 's|old/text|new/text|g' a.md" in failed.output["hint"]
    assert "hint" not in (await shell({"command": "sed -i 's/a' a.md"}, CONTEXT)).output


async def test_a_script_of_words_alone_is_told_how_to_print_them(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("all done\n")
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
    hint = (await shell({"command": "bash ./a.sh"}, CONTEXT)).output["hint"]
    assert hint.startswith("Line 1 of a.sh is 'all done', which is no command.")
    await shell({"command": hint.rpartition("run: ")[2]}, CONTEXT)
    assert (await shell({"command": "bash a.sh"}, CONTEXT)).output["stdout"] == "all done\n"
    (tmp_path / "b.sh").write_text("nosuch $(date)\n")
    assert "hint" not in (await shell({"command": "bash b.sh"}, CONTEXT)).output


async def test_a_replacement_that_hits_nothing_shows_the_lines_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{\n  "name": "api",\n  "replicas": 2\n}\n')
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
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
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
    hint = (await shell({"command": "sed -i 's/2/5/' a.json"}, CONTEXT)).output["hint"]
    assert "256 became 556" in hint
    await shell({"command": hint.rpartition("put it back: ")[2]}, CONTEXT)
    assert (tmp_path / "a.json").read_text() == '{"replicas": 5, "port": 80,\n "memory": 256}\n'


async def test_a_replacement_in_many_files_names_those_that_still_have_the_text(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "README.md"):
        (tmp_path / name).write_text("# Usr\n")
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
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
    shell = RunShell(UnconfinedSandbox(tmp_path, "run"))
    failed = (await shell({"command": "python3 test_adds.py"}, CONTEXT)).output
    assert (failed["failing_program"], failed["its_lines"]) == ("adds.py", "1: def add(a, b):\n2:     return a - b")
    (tmp_path / "adds.py").write_text("def add(a, b):\n    return a + c  # later\n")
    result = await shell({"command": "cd . && PYTHONPATH=. python3 ./test_adds.py"}, CONTEXT)
    assert result.output["failures"] == ["NameError: name 'c' is not defined in this line: return a + c  # later"]
    (tmp_path / "test_adds.py").write_text("import adds, other\n\nassert other.x == 2\n")
    assert "failing_program" not in (await shell({"command": "python3 test_adds.py"}, CONTEXT)).output
