"""What is wrong with definitions, wherever they were checked: as lines for people, and put together for programs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from agent_fabric.interfaces.cli.output import from_here, plain_lines
from agent_fabric.wire.definitions import WORKFLOW_PROBLEM
from agent_fabric.wire.shape import Json


def problem_lines(found: Json) -> Iterator[str]:
    """Yield each problem with its file and line."""
    for each in found["problems"]:
        problem = WORKFLOW_PROBLEM.load(each)
        yield plain_lines(str(replace(problem, file=from_here(problem.file))))


def count_checked(checked: Json) -> str:
    """Say how many files were looked at, and how many of them are wrong."""
    number = len(checked["files"])
    wrong = len({each["file"] for each in checked["problems"]})
    said = f"{wrong} wrong" if wrong else "no problems"
    return f"{number} {'file' if number == 1 else 'files'} checked: {said}"


def join_checks(checks: Iterable[Json]) -> Json:
    """Return several checks as one."""
    parts = list(checks)
    lists: dict[str, Sequence[object]] = {
        key: [value for part in parts for value in part[key]] for key in parts[0] if key != "valid"
    }
    return {"valid": all(part["valid"] for part in parts), **lists}
