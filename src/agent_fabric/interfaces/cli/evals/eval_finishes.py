"""`fabric eval finishes`: right and wrong against what was shown for it, over several evaluations."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.evals.summary import EvalSummary
from agent_fabric.domain.evals.trials import Evidence, Grade, TrialOutcome
from agent_fabric.domain.plural import counted
from agent_fabric.interfaces.cli.evals.eval_places import evals_at
from agent_fabric.interfaces.cli.place import RUNS, Place, RunAccess

MAX_EVALS = 1_000
_COLUMNS = {
    Evidence.PROVEN.value: "proven",
    Evidence.RUNS.value: "it runs",
    Evidence.UNPROVEN.value: "unproven",
    "sent_back": "sent back once",
    "for_nothing": "of these for nothing",
}
Counts = Counter[tuple[Grade, str]]


def finishes(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[EVAL]...", help="Their ids, or names; without any, all evaluations."),
    ] = None,
    *,
    at: Place,
) -> None:
    """Count how trials ended, over several evaluations: right and wrong against proven, unproven and sent back.

    The table is Markdown. A right result was sent back for nothing if the run has changed and proven nothing after it;
    of runs that were deleted that is not known.
    """

    async def go(place: RunAccess) -> dict[str, Any]:
        evals = evals_at(place)
        wanted = names or [each.eval_id for each in await evals.list(limit=MAX_EVALS)]
        summaries = {found.facts.eval_id: found for name in wanted for found in [await evals.show(name)]}
        return await _counted(place, list(summaries.values()))

    told = RUNS(at, go)
    at.print(told, _table(told))


async def _counted(place: RunAccess, summaries: Sequence[EvalSummary]) -> dict[str, Any]:
    trials = [each for summary in summaries for each in summary.trials if each.grade in (Grade.RIGHT, Grade.WRONG)]
    found: Counts = Counter()
    unknown = 0
    for each in trials:
        found[each.grade, each.evidence.value] += 1
        found[each.grade, "sent_back"] += each.sent_back
        if each.sent_back and each.grade is Grade.RIGHT:
            idle = await _is_idle(place, each)
            found[Grade.RIGHT, "for_nothing"] += idle is True
            unknown += idle is None
    grades = (Grade.RIGHT, Grade.WRONG)
    table = {grade.value: {column: found[grade, column] for column in _COLUMNS} for grade in grades}
    evals = [{"eval_id": each.facts.eval_id, "name": each.facts.name, "trials": each.done} for each in summaries]
    return {"evals": evals, "trials": len(trials), **table, "not_known": unknown}


async def _is_idle(place: RunAccess, trial: TrialOutcome) -> bool | None:
    """Tell whether a run did nothing more after it had been sent back; None: it is gone."""
    try:
        return (await place.result(trial.run_id)).idle_since_sent_back
    except RunNotFound:
        return None


def _table(told: dict[str, Any]) -> str:
    lines = [
        f"{counted(told['trials'], 'trial')} of {counted(len(told['evals']), 'evaluation')}",
        "",
        f"| | {' | '.join(_COLUMNS.values())} |",
        f"|---|{'--:|' * len(_COLUMNS)}",
    ]
    for grade in (Grade.RIGHT.value, Grade.WRONG.value):
        row = told[grade]
        total = sum(row[each.value] for each in Evidence)
        figures = [str(row[column]) for column in _COLUMNS]
        figures[-1] = figures[-1] if grade == Grade.RIGHT.value else "-"
        lines.append(f"| {grade} ({total}) | {' | '.join(figures)} |")
    if told["not_known"]:
        lines += [
            "",
            f"Of {counted(told['not_known'], 'deleted run')} it is not known whether that was for nothing.",
        ]
    return "\n".join(lines) + "\n"
