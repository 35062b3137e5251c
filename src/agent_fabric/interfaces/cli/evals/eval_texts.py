"""Evaluations as lines for people."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TextIO

from agent_fabric.application.ports.evals import EvalRecord
from agent_fabric.domain.evals.comparison import Comparison, Conclusion
from agent_fabric.domain.evals.summary import ArmResult, EvalSummary
from agent_fabric.domain.evals.trials import Grade, TrialOutcome
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.cli.durations import moment
from agent_fabric.interfaces.cli.output import colour, fit_width, plain
from agent_fabric.interfaces.views.evals import (
    comparison_words,
    evidence_table,
    interval_words,
    not_all_done,
    percent,
    tally_words,
    wrong_but_proven,
)

_WIDTH = 120
_MAX_LISTED = 20
_SHORT_ID = 8
_GRADE_STYLES = {Grade.RIGHT: "green", Grade.WRONG: "red", Grade.FAILED: "yellow"}
_CONCLUSION_STYLES = {Conclusion.BETTER: "green", Conclusion.WORSE: "red"}


def trial_line(outcome: TrialOutcome, out: TextIO) -> str:
    """Return one line about a trial that has ended."""
    grade = colour(f"{outcome.grade.value:<6}", _GRADE_STYLES[outcome.grade], out)
    trial = outcome.trial
    again = f" #{trial.attempt}" if trial.attempt > 1 else ""
    about = f"{plain(trial.case_id)}{again}, {plain(trial.arm.label)}"
    line = f"{grade} {outcome.evidence.value:<8} {about}, {outcome.seconds:.1f} s, run {outcome.run_id[:_SHORT_ID]}"
    if outcome.already_right:
        line += f", {colour('right before the trial', 'yellow', out)}"
    return f"{line}: {fit_width(outcome.reason, _WIDTH, out)}" if outcome.reason else line


def eval_text(summary: EvalSummary, compared: Sequence[Comparison] | None, out: TextIO = sys.stdout) -> str:
    """Return what an evaluation has shown, with the table of right and wrong against proven and unproven first."""
    return "\n".join(_lines(summary, compared, out)) + "\n"


def _lines(summary: EvalSummary, compared: Sequence[Comparison] | None, out: TextIO) -> Iterator[str]:
    facts = summary.facts
    yield f"{plain(facts.name)}: {facts.status.value}, {summary.done} of {count_of(summary.total, 'trial')} done"
    yield ""
    yield from _columns(_results(summary.arms))
    yield ""
    yield from _columns(evidence_table(summary.arms))
    yield ""
    yield from _columns(_costs(summary.arms, several=facts.k > 1))
    if summary.warnings:
        yield ""
        yield from (f"{colour('warning:', 'yellow', out)} {plain(warning)}" for warning in summary.warnings)
    proven_wrong = wrong_but_proven(summary)
    if proven_wrong:
        yield ""
        yield colour(f"wrong but proven: {len(proven_wrong)}", "red", out)
        yield from _name_trials(proven_wrong, out)
    if undone := not_all_done(summary):
        yield ""
        yield colour(f"completed, but not all was done: {len(undone)}", "yellow", out)
        yield from _name_trials([replace(each, reason="; ".join(each.not_done)) for each in undone], out)
    if summary.failures:
        yield ""
        yield colour(f"could not be tried: {len(summary.failures)}", "yellow", out)
        yield from _name_trials(summary.failures, out)
    uneven = _uneven(summary)
    if uneven:
        yield ""
        yield from _columns(uneven)
    for each in summary.between:
        yield ""
        yield _compare(each, out)
    if compared is not None:
        yield from _changes(compared, out)
    if facts.status is not RunStatus.COMPLETED:
        yield ""
        yield _what_next(facts.status, facts.eval_id[:_SHORT_ID])


def _what_next(status: RunStatus, eval_id: str) -> str:
    if status is RunStatus.CANCELLED:
        return "It was cancelled: what has no outcome will not be tried."
    if status is RunStatus.RUNNING:
        return f"A process works on it. See how far it is: fabric eval show {eval_id}"
    return f"To go on: fabric eval resume {eval_id}"


def _results(arms: Sequence[ArmResult]) -> Iterator[Sequence[str]]:
    yield ("model", "right", "share right (95 % interval)", "not tried")
    for arm in arms:
        yield (arm.arm.label, f"{arm.right} of {arm.tried}", interval_words(arm.share), str(arm.failed))


def _costs(arms: Sequence[ArmResult], *, several: bool) -> Iterator[Sequence[str]]:
    priced = any(arm.cost is not None for arm in arms)
    yield (
        *("model", "s per trial", "s in all", "answers", "tokens in", "reused", "out"),
        *(("cost",) if priced else ()),
        *(("pass@k", "pass^k") if several else ()),
    )
    for arm in arms:
        yield (
            arm.arm.label,
            f"{arm.seconds:.1f}",
            f"{arm.total_seconds:.0f}",
            f"{arm.steps:.1f}",
            f"{arm.prompt_tokens:,}",
            f"{arm.cached_tokens:,}",
            f"{arm.completion_tokens:,}",
            *((("-" if arm.cost is None else f"{arm.cost:.4f}"),) if priced else ()),
            *((percent(arm.any_right), percent(arm.all_right)) if several else ()),
        )


def _uneven(summary: EvalSummary) -> list[Sequence[str]]:
    """Return the cases that were not right every time, with how often they were."""
    rows: list[Sequence[str]] = []
    for nth, case in enumerate(summary.arms[0].cases):
        tallies = [arm.cases[nth].tally for arm in summary.arms]
        if any(tally.right < tally.of for tally in tallies):
            rows.append((case.case_id, *map(tally_words, tallies)))
    return [("not always right", *(arm.arm.label for arm in summary.arms)), *rows] if rows else []


def _name_trials(trials: Sequence[TrialOutcome], out: TextIO) -> Iterator[str]:
    for each in trials[:_MAX_LISTED]:
        line = f"{each.trial.case_id}, {each.trial.arm.label}, run {each.run_id[:_SHORT_ID]}"
        yield "  " + fit_width(f"{line}: {each.reason}" if each.reason else line, _WIDTH, out)
    if len(trials) > _MAX_LISTED:
        yield f"  and {len(trials) - _MAX_LISTED} more"


def _compare(comparison: Comparison, out: TextIO) -> str:
    words = plain(comparison_words(comparison))
    style = _CONCLUSION_STYLES.get(comparison.conclusion)
    return colour(words, style, out) if style else words


def _changes(compared: Sequence[Comparison], out: TextIO) -> Iterator[str]:
    if not compared:
        yield ""
        yield "The two evaluations have no model in common, so there is nothing to compare."
    for each in compared:
        yield ""
        yield _compare(each, out)
        for change in each.changes[:_MAX_LISTED]:
            sign = "up  " if change.up else "down"
            yield f"  {sign} {plain(change.case_id)}: {tally_words(change.before)} -> {tally_words(change.after)}"
        if len(each.changes) > _MAX_LISTED:
            yield f"  and {len(each.changes) - _MAX_LISTED} more"


def eval_list(records: Sequence[EvalRecord]) -> str:
    """Return one line for each evaluation."""
    if not records:
        return "No evaluations yet. Start one with: fabric eval run FILE\n"
    rows = [
        (
            each.eval_id[:_SHORT_ID],
            moment(each.created_at),
            each.status.value,
            f"{each.done} of {each.total}",
            f"{each.right} right",
            each.name,
        )
        for each in records
    ]
    return "\n".join(_columns(rows)) + "\n"


def _columns(rows: Sequence[Sequence[str]] | Iterator[Sequence[str]]) -> Iterator[str]:
    """Yield rows whose cells stand below each other."""
    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
