"""Which output fed which input, in one run of a workflow."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.problems import did_you_mean
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.events import Event
from agent_fabric.domain.workflows.definition import BuiltIn
from agent_fabric.domain.workflows.events import StepFinished, StepStarted
from agent_fabric.wire.shape import Listing, Shape

_PASSING_ON = (BuiltIn.TRANSFORM, BuiltIn.VALIDATE)
"""Actions whose inputs are their outputs."""
_NAMING_INNER = (BuiltIn.PARALLEL_GROUP, BuiltIn.CONDITIONAL)
"""Actions that give the outputs of the steps inside, by id."""
_ITEMS = "items"


@dataclass(slots=True)
class StepLineage:
    """What a step read and gave."""

    lane: str
    action: str = ""
    inputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """For each of its inputs, the values that fed it, such as `fetch.body`."""
    outputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The same for outputs that it computed itself."""
    gave: tuple[str, ...] = ()
    """The names of its outputs."""
    child_run_id: str | None = None
    reused_from: str | None = None


_LINEAGE = Listing(
    "steps",
    Shape(StepLineage, "step_id=lane action inputs outputs gave child_run_id reused_from"),
    name="Lineage",
    about="What every step of a run read and gave.",
)


def lineage_of(events: Iterable[Event]) -> dict[str, StepLineage]:
    """Return what every step read, in the order in which they began."""
    steps: dict[str, StepLineage] = {}
    for event in events:
        if event.lane is None:
            continue
        match event.body:
            case StepStarted() as body:
                step = steps.setdefault(event.lane, StepLineage(event.lane))
                step.action, step.child_run_id = body.action, body.child_run_id
                step.inputs = {name: tuple(paths) for name, paths in body.reads.items()}
            case StepFinished() as body:
                step = steps.setdefault(event.lane, StepLineage(event.lane))
                step.outputs = {name: tuple(paths) for name, paths in body.reads.items()}
                step.gave, step.reused_from = tuple(body.outputs), body.reused_from
            case _:
                pass
    return steps


def lineage_object(run_id: str, steps: Mapping[str, StepLineage]) -> dict[str, Any]:
    """Return it as JSON."""
    return {"run_id": run_id, **_LINEAGE.dump(steps.values())}


def fed_by(steps: Mapping[str, StepLineage], path: str) -> list[str]:
    """Return everything that went into a value, the nearest first."""
    return _reach([path], lambda each: _direct_sources(steps, each))


def feeds(steps: Mapping[str, StepLineage], path: str) -> list[str]:
    """Return everything that a value went into, the nearest first."""
    return _reach([path], lambda each: _direct_users(steps, each))


def require_known(steps: Mapping[str, StepLineage], path: str) -> None:
    """Check that a value belongs to this run.

    Raises:
        InvalidInputs: no step has this name, or it gave nothing of that name.
    """
    name = _step_in(steps, path)
    if name is None and path.split(".", maxsplit=1)[0] not in ("inputs", "run", "workflow", "secrets"):
        raise InvalidInputs(
            f"No step of this run gave {path!r}",
            hint=did_you_mean(path.split(".", maxsplit=1)[0], steps, otherwise="Write STEP.FIELD or inputs.NAME."),
        )
    wanted = "" if name is None else path.removeprefix(name).lstrip(".").split(".")[0]
    if name is not None and wanted and wanted not in (*steps[name].gave, *steps[name].inputs):
        given = ", ".join(steps[name].gave)
        raise InvalidInputs(
            f"The step {name!r} gave no {wanted!r}",
            hint=did_you_mean(wanted, steps[name].gave, otherwise=f"It gave {given}." if given else "It gave nothing."),
        )


def _reach(first: Sequence[str], further: Any) -> list[str]:
    found: dict[str, None] = {}
    ahead = list(first)
    for each in ahead:  # grows as it is walked
        for other in further(each):
            if other not in found and other not in first:
                found[other] = None
                ahead.append(other)
    return list(found)


def _direct_sources(steps: Mapping[str, StepLineage], path: str) -> list[str]:
    name = _step_in(steps, path)
    if name is None:
        return []
    step = steps[name]
    wanted, _, deeper = path.removeprefix(name).lstrip(".").partition(".")
    if step.action in _NAMING_INNER and _beside(name, wanted) in steps:
        return [f"{_beside(name, wanted)}.{deeper}".rstrip(".")]  # its outputs are those of the steps inside, by id
    if wanted in step.outputs and "result" not in {each.split(".")[0] for each in step.outputs[wanted]}:
        return _as_lanes(steps, step, step.outputs[wanted])
    if wanted in step.inputs and (step.action in _PASSING_ON or wanted == _ITEMS):
        return _as_lanes(steps, step, step.inputs[wanted])
    found = [each for paths in step.inputs.values() for each in _as_lanes(steps, step, paths)]
    if step.action == BuiltIn.FOR_EACH and (wanted in ("", "results") or wanted in step.outputs):
        found += [lane for lane in steps if lane.startswith(f"{name}[")]
    return found


def _direct_users(steps: Mapping[str, StepLineage], path: str) -> list[str]:
    found: list[str] = []
    for step in steps.values():
        for name, paths in step.inputs.items():
            if any(_overlap(each, path) for each in _as_lanes(steps, step, paths)):
                same = step.action in _PASSING_ON and name in step.gave
                found.append(f"{step.lane}.{name}" if same else step.lane)
        found += [
            f"{step.lane}.{name}"
            for name, paths in step.outputs.items()
            if any(_overlap(each, path) for each in _as_lanes(steps, step, paths))
        ]
    if path.rpartition("[")[0] and (around := _each_around(path)) in steps:
        found.append(f"{around}.results")
    return found


def _as_lanes(steps: Mapping[str, StepLineage], step: StepLineage, paths: Iterable[str]) -> list[str]:
    """Return what a step read, named from outside: inside a `for-each` the same names mean other things per item."""
    return [_as_lane(steps, step.lane, each) for each in paths]


def _as_lane(steps: Mapping[str, StepLineage], lane: str, path: str) -> str:
    head = path.split(".", maxsplit=1)[0]
    around = lane.rpartition(".")[0]
    if head in ("item", "index"):
        return f"{around.rpartition('[')[0]}.{_ITEMS}" if around else path
    while around:
        if f"{around}.{head}" in steps:
            return f"{around}.{path}"
        around = around.rpartition(".")[0]
    return path


def _beside(lane: str, name: str) -> str:
    before, dot, _ = lane.rpartition(".")
    return f"{before}{dot}{name}"


def _each_around(path: str) -> str:
    """Return the `for-each` that a step inside belongs to."""
    return path[: path.rindex("[")]


def _overlap(one: str, other: str) -> bool:
    """Tell whether two paths have to do with each other: one is the other, or a part of it."""
    first, second = one.split("."), other.split(".")
    shared = min(len(first), len(second))
    return first[:shared] == second[:shared]


def _step_in(steps: Mapping[str, StepLineage], path: str) -> str | None:
    """Return the step that a path begins with; inside a `for-each` its name has dots itself."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        if name in steps:
            return name
    return None
