"""A check in its box, whatever an earlier process left."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from agent_fabric.application.evals.check_trial import CheckTrial
from agent_fabric.application.ports.sandbox import CommandOutcome, Sandbox
from agent_fabric.domain.evals.definition import CaseFile, EvalCase
from agent_fabric.domain.evals.trials import Grade
from agent_fabric.domain.ids import RunId


@dataclass
class Boxes:
    """Stands for the sandboxes and for the folders of cases: writes down what is asked of them."""

    asked: list[str] = field(default_factory=list)
    outcome: CommandOutcome = field(default_factory=lambda: CommandOutcome(exit_code=0, stdout=b"", stderr=b""))
    level = "A"

    async def stage(self, run_id: RunId, files: Mapping[str, CaseFile]) -> str:
        raise NotImplementedError

    async def copy_for_check(self, run_id: RunId, workspace: str | None, files: Mapping[str, CaseFile]) -> str:
        return f"/copies/{run_id}"

    async def remove(self, path: str) -> None:
        self.asked.append(f"remove {path}")

    def for_run(self, run_id: RunId, workspace: str, *, network_allowed: bool) -> Sandbox:
        assert not network_allowed
        self.asked.append(f"box {run_id}")
        return cast("Sandbox", self)

    async def run_command(self, command: str, *, timeout_s: float, environment: Mapping[str, str]) -> CommandOutcome:
        self.asked.append(command)
        return self.outcome

    async def close(self, run_id: RunId) -> None:
        self.asked.append(f"close {run_id}")

    async def end_leftovers(self, run_id: RunId, workspace: str) -> int:
        self.asked.append(f"end {run_id} {workspace}")
        return 1


async def test_what_a_killed_process_left_of_the_same_check_is_ended_first() -> None:
    boxes = Boxes()
    case = EvalCase(case_id="c", prompt="do it", check="make test")
    result = await CheckTrial(boxes, boxes)(RunId("r"), "/work", case, timeout_s=5)
    assert result.grade is Grade.RIGHT
    assert boxes.asked == ["end r-check /copies/r", "box r-check", "make test", "close r-check", "remove /copies/r"]


async def test_a_check_that_was_killed_says_so() -> None:
    boxes = Boxes(outcome=CommandOutcome(exit_code=-9, stdout=b"", stderr=b""))
    case = EvalCase(case_id="c", prompt="do it", check="make test")
    result = await CheckTrial(boxes, boxes)(RunId("r"), "/work", case, timeout_s=5)
    assert (result.grade, result.reason) == (Grade.WRONG, "ended by signal 9")
