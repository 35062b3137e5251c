"""`fabric eval`: try tasks with checks on models and packs, and compare."""

import errno
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from agent_fabric.application.ports.evals import EvalRecord
from agent_fabric.bootstrap.runs import make_case
from agent_fabric.domain.definitions.problems import did_you_mean
from agent_fabric.domain.errors import ConfigError, RunNotFound
from agent_fabric.domain.evals.definition import CASE_ID, MAX_AT_ONCE, MAX_REPEATS, EvalCase, EvalDefinition, plain_case
from agent_fabric.domain.evals.summary import Eval, EvalSummary
from agent_fabric.domain.evals.trials import Evidence, Grade, TrialOutcome
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.status import RunStatus
from agent_fabric.domain.runs.task import lower_of
from agent_fabric.interfaces.cli.evals.eval_places import (
    ComparedEval,
    Old,
    choose_eval,
    compare_with,
    evals_at,
    find_old,
    old_eval,
    summary_of,
)
from agent_fabric.interfaces.cli.evals.eval_texts import eval_list, eval_text
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, INTERRUPTED
from agent_fabric.interfaces.cli.options import Last, MaxCost, RequireProof, RunIdArgument, configuration
from agent_fabric.interfaces.cli.output import plain, print_json, print_warning
from agent_fabric.interfaces.cli.place import RUNS, Place, RunAccess, choose_run, refuse_if, with_run
from agent_fabric.interfaces.cli.place_local import LocalRuns
from agent_fabric.interfaces.views.evals import markdown_report
from agent_fabric.wire.evals import EVAL_LIST, eval_object

if TYPE_CHECKING:
    from agent_fabric.bootstrap.runs import EvalParts
    from agent_fabric.client import FabricClient
    from agent_fabric.interfaces.cli.evals.eval_driving import Begin

_HELP = """\
Evaluate models and packs on your own tasks: each case has a prompt, files and a check.

\b
Examples:
  fabric eval run tasks.yaml --models fast,large --k 3
  fabric eval show --last --report report.md
  fabric eval run tasks.yaml --compare before.json --min-right 0.9
  fabric eval add --last --check "python3 -m pytest -q" --to tasks.yaml
"""

app = new_app(_HELP)

EvalArgument = Annotated[
    str | None, typer.Argument(metavar="EVAL", help="Its id, the beginning of it, or its name; else --last.")
]
LastEval = Annotated[bool, typer.Option("--last", help="Your newest evaluation, instead of EVAL.")]
Compare = Annotated[
    str | None,
    typer.Option(metavar="OLD", help="Compare with an older one: its id or name, or a file that --json has written."),
]
Report = Annotated[str | None, typer.Option(metavar="FILE", help="Write a Markdown report.")]
MinRight = Annotated[
    float | None,
    typer.Option(min=0, max=1, metavar="SHARE", help="Exit with 1 if any model's share right is lower: 0.9."),
]


class _Asked(NamedTuple):
    """What the options say about an evaluation that is shown: with what it is compared, and where it is written."""

    old: Old
    report: str | None
    min_right: float | None
    as_json: bool

    def evaluate_there(self, url: str, begin: "Callable[[FabricClient], Awaitable[EvalSummary]]") -> int:
        """Let a server work through an evaluation, show it, and return the exit code."""
        from agent_fabric.interfaces.cli.evals.eval_driving import evaluate_there  # noqa: PLC0415 - aiohttp

        return self.present(evaluate_there(url, begin, old=self.old, quiet=self.as_json))

    def evaluate_here(self, root: Path, begin: "Begin") -> int:
        """Work through an evaluation, show it, and return the exit code."""
        from agent_fabric.interfaces.cli.evals.eval_driving import evaluate_here  # noqa: PLC0415 - reading needs none of this

        return self.present(evaluate_here(root, configuration(root), begin, old=self.old, quiet=self.as_json))

    def present(self, found: ComparedEval) -> int:
        """Print an evaluation, write its report, and return the exit code."""
        summary, comparisons = found
        if self.as_json:
            print_json(eval_object(summary, comparisons))
        else:
            sys.stdout.write(eval_text(summary, comparisons))
            sys.stdout.flush()
        if self.report is not None:
            _write_report(Path(self.report), markdown_report(summary, comparisons))
        if summary.facts.status is RunStatus.CANCELLED:
            return FAILED
        if summary.facts.status is not RunStatus.COMPLETED:
            return INTERRUPTED
        shares = [arm.share for arm in summary.arms]
        if any(share is None or share.value < (self.min_right or 0) for share in shares):
            return FAILED
        return COMPLETED


@app.callback()
def evaluate() -> None:
    """Evaluate models and packs on your own tasks."""


@app.command()
def run(  # noqa: PLR0913, PLR0917 - the options are a contract with the users
    file: Annotated[str, typer.Argument(metavar="FILE", help="The cases, as YAML or JSON.")],
    k: Annotated[int | None, typer.Option("--k", min=1, max=MAX_REPEATS, help="How often each case is tried.")] = None,
    models: Annotated[
        str, typer.Option(metavar="KEY[,KEY…]", help="The configured models to try; by default as in the file.")
    ] = "",
    packs: Annotated[
        str, typer.Option(metavar="NAME[,NAME…]", help="The packs to try, each by itself; by default as in the file.")
    ] = "",
    case: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this case; can be repeated.")] = None,
    at_once: Annotated[
        int | None, typer.Option(min=1, max=MAX_AT_ONCE, help="Trials under way at the same time.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="What to call it; by default as the file.")] = "",
    max_cost: MaxCost = None,
    require_proof: RequireProof = False,
    compare: Compare = None,
    report: Report = None,
    min_right: MinRight = None,
    *,
    at: Place,
) -> int:
    """Try every case k times on every model, and say how many are right, with an interval.

    Each trial is a run of its own, in a fresh workspace; no person is asked during one: what would need an approval is
    refused. The check runs afterwards on a copy of the workspace, in the same box as tools, without a network. Killed
    or stopped, the evaluation goes on with `fabric eval resume`.

    Exit codes: 0 done, 1 a model is below --min-right or could not be tried, 2 wrong usage or file, 130 interrupted.
    """
    from agent_fabric.infrastructure.evals.eval_files import read_eval  # noqa: PLC0415 - lists read no files

    definition = _with_options(read_eval(Path(file)), k, models, packs, case or (), at_once, name)
    definition = replace(
        definition,
        max_cost=lower_of(definition.max_cost, max_cost),
        require_proof=definition.require_proof or require_proof,
    )
    asked = _Asked(old_eval(compare), _require_room_for(report), min_right, at.as_json)
    url = at.url()
    if url is not None:
        return asked.evaluate_there(url, lambda client: client.evals.start(definition))

    async def begin(evals: "EvalParts") -> Eval:
        return await evals.start(definition)

    return asked.evaluate_here(at.root(), begin)


def _with_options(
    definition: EvalDefinition,
    k: int | None,
    models: str,
    packs: str,
    cases: Sequence[str],
    at_once: int | None,
    name: str,
) -> EvalDefinition:
    """Return a definition as the options change it."""
    known = [each.case_id for each in definition.cases]
    for wanted in cases:
        if wanted not in known:
            raise ConfigError(f"There is no case {wanted!r}", hint=did_you_mean(wanted, known))
    return replace(
        definition,
        k=k or definition.k,
        at_once=at_once or definition.at_once,
        name=name or definition.name,
        models=_names_in(models, "--models") or definition.models,
        packs=_names_in(packs, "--packs") or definition.packs,
        cases=tuple(each for each in definition.cases if not cases or each.case_id in cases),
    )


def _names_in(text: str, option: str) -> tuple[str, ...]:
    listed = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if text and not listed:
        raise ConfigError(f"{option} {text!r} names nothing", hint="Names are separated by commas: fast,large")
    return listed


@app.command()
def resume(
    name: EvalArgument = None,
    last: LastEval = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try again what could not be tried, with new runs.")
    ] = False,
    compare: Compare = None,
    report: Report = None,
    min_right: MinRight = None,
    *,
    at: Place,
) -> int:
    """Go on with an evaluation that was stopped or killed. What has an outcome is not tried again.

    Exit codes: as `fabric eval run`.
    """
    chosen = choose_eval(name, last=last)
    asked = _Asked(old_eval(compare), _require_room_for(report), min_right, at.as_json)
    url = at.url()
    if url is not None:
        from agent_fabric.interfaces.cli.evals.eval_driving import resume_there  # noqa: PLC0415 - aiohttp

        return asked.evaluate_there(url, partial(resume_there, chosen, retry_failed))

    async def begin(evals: "EvalParts") -> Eval:
        found = await (evals.find.newest(owner=LOCAL_OWNER) if chosen is None else evals.find(chosen))
        if retry_failed:
            await evals.run.trials.retry_failed(found.eval_id)
        return found

    return asked.evaluate_here(at.existing_root(), begin)


@app.command("list")
def list_evals(limit: Annotated[int, typer.Option(min=1, help="Most evaluations to show.")] = 20, *, at: Place) -> None:
    """List the newest evaluations."""
    found: Sequence[EvalRecord] = RUNS(at, lambda runs: evals_at(runs).list(limit=limit), without=[])
    at.print(EVAL_LIST.dump(found), eval_list(found))


@app.command()
def show(
    name: EvalArgument = None,
    last: LastEval = False,
    compare: Compare = None,
    report: Report = None,
    min_right: MinRight = None,
    *,
    at: Place,
) -> int:
    """Show what an evaluation has shown so far.

    Exit codes: 0 shown, 1 a model is below --min-right or could not be tried, 2 wrong usage.
    """
    chosen = choose_eval(name, last=last)
    asked = _Asked(old_eval(compare), _require_room_for(report), min_right, at.as_json)

    async def go(place: RunAccess) -> ComparedEval:
        evals = evals_at(place)
        return compare_with(await summary_of(evals, chosen), await find_old(evals, asked.old))

    code = asked.present(RUNS(at, go))
    return COMPLETED if code == INTERRUPTED else code


@app.command()
def cancel(
    name: EvalArgument = None,
    last: LastEval = False,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    *,
    at: Place,
) -> None:
    """End an evaluation and the runs that are under way for it. What has an outcome keeps it."""
    chosen = choose_eval(name, last=last)

    async def go(place: RunAccess) -> EvalSummary:
        evals = evals_at(place)
        return await evals.cancel(chosen or (await summary_of(evals, None)).facts.eval_id, reason=reason)

    summary = RUNS(at, go)
    at.print(eval_object(summary), eval_text(summary, None))


_MAX_NAMED = 5


@app.command()
def add(
    run_id: RunIdArgument = None,
    check: Annotated[str, typer.Option(metavar="CMD", help="A command line; exit code 0 means right.")] = "",
    last: Last = False,
    to: Annotated[str, typer.Option(metavar="FILE", help="The eval file; made if there is none.")] = "evals.yaml",
    case_id: Annotated[str, typer.Option("--id", metavar="ID", help="What to call it; by default by its words.")] = "",
    only: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Only this file or folder of the project; can be repeated.")
    ] = None,
    *,
    at: Place,
) -> None:
    """Make a case of a real run: what was asked, and the files as they were before it.

    Of a run in a project (--here), the files as they stood when it began; other runs begin with an empty workspace.
    Files whose names say that they hold secrets are left out.
    """
    refuse_if(not check.strip(), "A case needs a check", hint="For example: --check 'python3 -m pytest -q'")
    refuse_if(
        bool(case_id) and CASE_ID.fullmatch(case_id) is None,
        f"{case_id!r} cannot be an id",
        hint="Letters, digits, . _ and -, at most 64.",
    )
    chosen = choose_run(run_id, last=last)
    paths = [path.removeprefix("./").rstrip("/") for path in only or ()]

    from agent_fabric.application.evals.make_case import MadeCase, id_from, require_known, require_task  # noqa: PLC0415 - as above

    async def go(place: RunAccess, found: RunId) -> MadeCase:
        if isinstance(place, LocalRuns):
            return await make_case(place.records)(found, check=check, case_id=case_id, only=paths)
        created = require_task(found, await place.events(found))
        if created.continues is not None:
            raise ConfigError(
                f"Run {found} began with the files of another run", hint="Make a case of the first one instead."
            )
        require_known(paths, ())
        return MadeCase(EvalCase(case_id=case_id or id_from(created.prompt), prompt=created.prompt, check=check), ())

    case, left_out = with_run(at, chosen, go)
    from agent_fabric.infrastructure.evals.eval_files import add_case  # noqa: PLC0415 - as above

    case = add_case(Path(to), case, renames=not case_id)
    if left_out:
        names = ", ".join(map(plain, left_out[:_MAX_NAMED]))
        more = f" and {len(left_out) - _MAX_NAMED} more" if len(left_out) > _MAX_NAMED else ""
        print_warning(f"left out, since they are links, may hold secrets or are no longer stored: {names}{more}")
    at.print(
        {"file": to, "case": plain_case(case), "left_out": list(left_out)},
        f"added {case.case_id} with {count_of(len(case.files), 'file')} to {plain(to)}\n"
        f"try it: fabric eval run {plain(to)} --case {case.case_id}\n",
    )


MAX_EVALS = 1_000
_COLUMNS = {
    Evidence.PROVEN.value: "proven",
    Evidence.RUNS.value: "it runs",
    Evidence.UNPROVEN.value: "unproven",
    "sent_back": "sent back once",
    "for_nothing": "of these for nothing",
}
Counts = Counter[tuple[Grade, str]]


@app.command()
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
        return await _count(place, list(summaries.values()))

    told = RUNS(at, go)
    at.print(told, _finishes_table(told))


async def _count(place: RunAccess, summaries: Sequence[EvalSummary]) -> dict[str, Any]:
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


def _finishes_table(told: dict[str, Any]) -> str:
    lines = [
        f"{count_of(told['trials'], 'trial')} of {count_of(len(told['evals']), 'evaluation')}",
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
            f"Of {count_of(told['not_known'], 'deleted run')} it is not known whether that was for nothing.",
        ]
    return "\n".join(lines) + "\n"


def _require_room_for(report: str | None) -> str | None:
    """Return where a report goes; what is wrong with that is told before hours of work, not after."""
    if report is not None:
        path = Path(report)
        code = errno.EISDIR if path.is_dir() else 0 if path.parent.is_dir() else errno.ENOENT
        if not code and not os.access(path if path.exists() else path.parent, os.W_OK):
            code = errno.EACCES
        if code:
            raise _report_unwritable(path, OSError(code, os.strerror(code)))
    return report


def _write_report(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise _report_unwritable(path, problem) from None


def _report_unwritable(path: Path, problem: OSError) -> ConfigError:
    reason = problem.strerror or problem
    return ConfigError(f"The report cannot be written: {path}: {reason}", hint="Choose another file.")
