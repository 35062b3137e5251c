"""An evaluation as a Markdown report."""

from collections.abc import Iterator, Sequence

from agent_fabric.domain.evals.comparison import Comparison, Conclusion
from agent_fabric.domain.evals.intervals import Estimate, Tally
from agent_fabric.domain.evals.summary import ArmResult, EvalSummary
from agent_fabric.domain.evals.trials import Evidence, Grade, TrialOutcome
from agent_fabric.domain.plural import count_of

MAX_LISTED = 50
"""Trials that a list names; more are counted."""


def markdown_report(summary: EvalSummary, compared: Sequence[Comparison] | None = None) -> str:
    """Return the report; `compared` is how the evaluation differs from an older one."""
    return "\n".join(_lines(summary, compared)) + "\n"


def _lines(summary: EvalSummary, compared: Sequence[Comparison] | None) -> Iterator[str]:
    facts = summary.facts
    yield f"# {_cell(facts.name)}"
    yield ""
    if facts.description:
        yield from (facts.description, "")
    yield (
        f"{facts.status.value}: {summary.done} of {count_of(summary.total, 'trial')}, k = {facts.k}; evaluation "
        f"`{facts.eval_id}`."
    )
    yield ""
    for warning in summary.warnings:
        yield from (f"Warning: {_cell(warning)}.", "")
    yield "| model | right | 95 % interval |"
    yield "|---|--:|--:|"
    for arm in summary.arms:
        yield _row(arm.arm.label, f"{arm.right} of {arm.tried}", interval_words(arm.share))
    yield ""
    for title, *figures in evidence_table(summary.arms):
        yield _row(title, *figures)
        if not title:
            yield "|---|--:|--:|--:|--:|"
    yield ""
    yield "| model | not tried | at least once (pass@k) | every time (pass^k) | s per trial | tokens in | out | cost |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for arm in summary.arms:
        yield _row(arm.arm.label, *_figures(arm))
    yield ""
    for each in summary.between:
        yield from (comparison_words(each), "")
    if compared is not None:
        yield from _comparisons(compared)
    yield from _cases(summary)
    yield from _name_trials("Wrong, but proven", wrong_but_proven(summary))
    yield from _name_trials("Completed, but not all was done", not_all_done(summary))
    yield from _name_trials("Could not be tried", summary.failures)
    yield "The share is over cases, each counting alike; the interval is for tasks like these, with cases as its unit."


def _figures(arm: ArmResult) -> tuple[str, ...]:
    return (
        str(arm.failed),
        percent(arm.any_right),
        percent(arm.all_right),
        f"{arm.seconds:.1f}",
        f"{arm.prompt_tokens:,}",
        f"{arm.completion_tokens:,}",
        "" if arm.cost is None else f"{arm.cost:.4f}",
    )


def _comparisons(compared: Sequence[Comparison]) -> Iterator[str]:
    yield "## Compared"
    yield ""
    if not compared:
        yield from ("The two have no model in common.", "")
    for each in compared:
        yield from (comparison_words(each), "")
        if each.changes:
            yield "| case | before | after |"
            yield "|---|--:|--:|"
            for change in each.changes:
                yield _row(change.case_id, tally_words(change.before), tally_words(change.after))
            yield ""


def _cases(summary: EvalSummary) -> Iterator[str]:
    yield "## Cases"
    yield ""
    yield _row("case", *(arm.arm.label for arm in summary.arms))
    yield "|---|" + "--:|" * len(summary.arms)
    for nth, case in enumerate(summary.arms[0].cases):
        yield _row(case.case_id, *(tally_words(arm.cases[nth].tally) for arm in summary.arms))
    yield ""


def _name_trials(title: str, trials: Sequence[TrialOutcome]) -> Iterator[str]:
    if not trials:
        return
    yield f"## {title}"
    yield ""
    for each in trials[:MAX_LISTED]:
        said = "; ".join((*each.not_done, *filter(None, (" ".join(each.reason.split()),))))
        reason = f": {_cell(said)}" if said else ""
        yield f"- {_cell(each.trial.case_id)}, {_cell(each.trial.arm.label)}, run `{each.run_id}`{reason}"
    if len(trials) > MAX_LISTED:
        yield f"- and {len(trials) - MAX_LISTED} more"
    yield ""


def wrong_but_proven(summary: EvalSummary) -> tuple[TrialOutcome, ...]:
    """Return the trials that had a proof and were wrong all the same."""
    return tuple(each for each in summary.trials if each.grade is Grade.WRONG and each.evidence is Evidence.PROVEN)


def not_all_done(summary: EvalSummary) -> tuple[TrialOutcome, ...]:
    """Return the trials whose run completed though something was denied, failed or is in doubt."""
    return tuple(each for each in summary.trials if each.not_done)


def evidence_table(arms: Sequence[ArmResult]) -> Iterator[Sequence[str]]:
    """Return right and wrong against what was shown for it, as rows; the first is the heading."""
    yield ("", "proven", "it runs", "unproven", "sent back once")
    for arm in arms:
        table = arm.table
        yield _grade_row(
            arm, "right", table.right_proven, table.right_runs, table.right_unproven, table.right_sent_back
        )
        yield _grade_row(
            arm, "wrong", table.wrong_proven, table.wrong_runs, table.wrong_unproven, table.wrong_sent_back
        )


def _grade_row(arm: ArmResult, grade: str, *figures: int) -> Sequence[str]:
    return (f"{arm.arm.label}, {grade}", *map(str, figures))


def comparison_words(comparison: Comparison) -> str:
    """Say how two series differ, and whether that is noise."""
    about = f"{comparison.after} against {comparison.before}"
    left = [
        words
        for number, words in (
            (len(comparison.altered), "changed since and left out"),
            (len(comparison.unmatched), "tried by only one and left out"),
        )
        if number
        for words in [f"{count_of(number, 'case')} {words}"]
    ]
    found = comparison.difference
    if found is None:
        told = "nothing to compare, they have no case in common"
    elif comparison.conclusion is Conclusion.SAME:
        told = f"no difference in {count_of(comparison.cases, 'case')}"
    else:
        interval = f"{signed_number(found.low)} to {signed_number(found.high)}"
        told = (
            f"{comparison.conclusion.value}: {signed_number(found.value)} right ({interval}), "
            f"p = {_p_value(comparison.p_value)}, {count_of(comparison.ups, 'case')} up, {comparison.downs} down "
            f"of {comparison.cases}"
        )
    return f"{about}: {'; '.join([told, *left])}."


def _p_value(value: float) -> str:
    return f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"


def percent(share: float | None) -> str:
    """Return a share in per cent; a dash where there is none."""
    return "-" if share is None else f"{100 * share:.0f} %"


def signed_number(share: float) -> str:
    """Return a difference in per cent, with its sign."""
    return f"{100 * share:+.0f} %"


def interval_words(estimate: Estimate | None) -> str:
    """Return a share with its interval."""
    if estimate is None:
        return "-"
    return f"{percent(estimate.value)} ({100 * estimate.low:.0f} to {100 * estimate.high:.0f} %)"


def tally_words(tally: Tally) -> str:
    """Return how often a case was right."""
    return f"{tally.right} of {tally.of}" if tally.of else "-"


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """Return text that stays in its cell: no line breaks, nothing that Markdown takes for a column or HTML."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return plain.replace("|", "\\|").replace("<", "&lt;")
