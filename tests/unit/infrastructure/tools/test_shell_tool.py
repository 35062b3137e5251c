import json
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


async def test_an_error_that_has_one_remedy_is_told_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('print("Sum: " + 3)\n')
    result = await RunShell(UnconfinedSandbox(tmp_path, "run"))({"command": "python3 a.py"}, CONTEXT)
    assert "to str (put str( ) around what is no text)" in result.output["failures"][0]
