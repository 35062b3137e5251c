"""Evaluations as text and Markdown: what is said, and that nothing in a name steers a page or a terminal."""

import io
from dataclasses import replace

from agent_fabric.domain.evals.comparison import compare
from agent_fabric.domain.evals.intervals import Tally
from agent_fabric.domain.evals.summary import EvalSummary, compare_evals, summarize
from agent_fabric.domain.evals.trials import Arm, Grade
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.cli.evals.eval_texts import eval_text, trial_line
from agent_fabric.interfaces.views.evals import comparison_words, markdown_report
from agent_fabric.wire.evals import EVAL, eval_object
from contract.evals_contract import DEFINITION, outcome, started

BOTH = [outcome("a", Grade.RIGHT), outcome("b", Grade.WRONG), outcome("b", Grade.FAILED, attempt=2)]


def summary(name: str = "tasks") -> EvalSummary:
    evaluation = replace(started(), definition=replace(DEFINITION, name=name), status=RunStatus.COMPLETED)
    other = [replace(each, trial=each.trial._replace(arm=Arm("large", "engineering"))) for each in BOTH[:1]]
    return summarize(evaluation, [*BOTH, *other])


def test_the_table_counts_right_and_wrong_against_proof() -> None:
    text = eval_text(summary(), None, io.StringIO())
    row = next(line for line in text.splitlines() if line.startswith("fast") and "1 of 2" in line)
    assert row.split("%)")[1].split() == ["1"]
    right, wrong = (next(line for line in text.splitlines() if f", {grade} " in line) for grade in ("right", "wrong"))
    assert right.split()[-4:] == ["1", "0", "0", "1"]
    assert wrong.split()[-4:] == ["1", "0", "0", "1"]
    assert "wrong but proven: 1" in text
    assert "could not be tried: 1" in text
    assert "large · engineering against fast · engineering: no difference in 1 case; 1 case tried by only one" in text


def test_a_case_that_was_not_tried_k_times_says_nothing_about_k() -> None:
    (arm, *_) = summarize(started(), [outcome("a", Grade.RIGHT)]).arms
    assert (arm.any_right, arm.all_right) == (None, None)
    (arm, *_) = summarize(started(), [outcome("a", Grade.RIGHT), outcome("a", Grade.WRONG, attempt=2)]).arms
    assert (arm.any_right, arm.all_right) == (1.0, 0.0)


def test_a_report_has_the_same_figures_and_names_what_matters() -> None:
    report = markdown_report(summary(), compare_evals(summary(), summary()))
    assert "| fast · engineering | 1 of 2 | 50 % (9 to 91 %) |" in report
    assert "| fast · engineering, wrong | 1 | 0 | 0 | 1 |" in report
    assert "## Wrong, but proven" in report
    assert "## Could not be tried" in report
    assert "## Compared" in report


def test_nothing_in_a_name_makes_a_column_a_line_or_a_tag() -> None:
    report = markdown_report(summary("x | y\n# z <script>\x1b[2J"))
    assert report.splitlines()[0] == "# x \\| y # z &lt;script> [2J"
    assert "\x1b" not in eval_text(summary("a\x1b[2Jb"), None, io.StringIO())


def test_an_evaluation_survives_being_sent() -> None:
    assert EVAL.load(eval_object(summary())) == summary()


def test_a_file_of_an_older_program_can_be_compared_with() -> None:
    shown = eval_object(summary())
    for arm in shown["results"]:
        for key in ("right_runs", "wrong_runs", "right_sent_back", "wrong_sent_back"):
            del arm["table"][key]
    for trial in shown["trials"]:
        del trial["evidence"], trial["sent_back"]
    (first, *_) = compare_evals(EVAL.load(shown), summary())
    assert (first.cases, first.ups, first.downs) == (2, 0, 0)


def test_a_check_that_says_nothing_is_warned_of() -> None:
    said = replace(outcome("a", Grade.RIGHT), already_right=True)
    found = summarize(started(), [said, replace(outcome("b", Grade.RIGHT), already_right=False)])
    warning = "a: its check is right before anything is done, so it shows nothing"
    assert found.warnings == (warning,)
    assert f"warning: {warning}" in eval_text(found, None, io.StringIO())
    assert f"Warning: {warning}." in markdown_report(found)
    assert trial_line(said, io.StringIO()).endswith(", right before the trial: é")
    shown = eval_object(found)
    assert shown["warnings"] == [warning]
    assert [each["already_right"] for each in shown["results"][0]["cases"]] == [True, False]
    assert EVAL.load(shown) == found


def test_a_difference_is_told_in_one_sentence() -> None:
    before = {f"c{n}": Tally(0, 1) for n in range(9)}
    after = {f"c{n}": Tally(1, 1) for n in range(9)}
    assert comparison_words(compare(before, after, names=("old", "new"))).startswith(
        "new against old: better: +100 % right (+"
    )
    noise = compare(before, {**before, "c0": Tally(1, 1)}, names=("old", "new"))
    assert "could be noise: +11 % right" in comparison_words(noise)
    assert "p = 1.00, 1 case up, 0 down of 9" in comparison_words(noise)
