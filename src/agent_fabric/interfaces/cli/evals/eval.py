"""`fabric eval`: try tasks with checks on models and packs, and compare."""

import errno
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from agent_fabric.application.ports.evals import EvalRecord
from agent_fabric.domain.definitions.problems import did_you_mean
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.evals.definition import MAX_AT_ONCE, MAX_REPEATS, EvalDefinition
from agent_fabric.domain.evals.summary import Eval, EvalSummary
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.evals.eval_files import read_eval
from agent_fabric.interfaces.cli.evals.eval_add import add
from agent_fabric.interfaces.cli.evals.eval_finishes import finishes
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
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.output import print_json
from agent_fabric.interfaces.cli.place import RUNS, Place, RunAccess
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
    compare: Compare = None,
    report: Report = None,
    min_right: MinRight = None,
    *,
    at: Place,
) -> int:
    """Try every case k times on every model, and say how many are right, with an interval.

    Each trial is a run of its own, in a fresh workspace; nobody is asked during one: what would need an approval is
    refused. The check runs afterwards on a copy of the workspace, in the same box as tools, without a network. Killed
    or stopped, the evaluation goes on with `fabric eval resume`.

    Exit codes: 0 done, 1 a model is below --min-right or could not be tried, 2 wrong usage or file, 130 interrupted.
    """
    definition = _chosen(read_eval(Path(file)), k, models, packs, case or (), at_once, name)
    asked = _Asked(old_eval(compare), _require_room_for(report), min_right, at.as_json)
    url = at.url()
    if url is not None:
        return asked.evaluate_there(url, lambda client: client.evals.start(definition))

    async def begin(evals: "EvalParts") -> Eval:
        return await evals.start(definition)

    return asked.evaluate_here(at.root(), begin)


def _chosen(
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
        models=_listed(models, "--models") or definition.models,
        packs=_listed(packs, "--packs") or definition.packs,
        cases=tuple(each for each in definition.cases if not cases or each.case_id in cases),
    )


def _listed(text: str, option: str) -> tuple[str, ...]:
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


app.command()(add)
app.command()(finishes)


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
