"""Runs as lines of a list: in a pipe all of each, at a terminal one line each, with as much as fits."""

import shutil
import time
from collections.abc import Iterator, Sequence
from typing import TextIO

from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.domain.chat.conversation import newest_words
from agent_fabric.domain.identity.ownership import LOCAL_OWNER, Visibility
from agent_fabric.domain.runs.effects import Outcome
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.cli.durations import minute
from agent_fabric.interfaces.cli.output import colour, fit_width, one_line, plain, shorten

_WIDE = 110
"""Columns from which on there is room for the specialists as well."""
_SHORT_ID = 8
_SHORTEST_TASK = 20
_PIPED_TASK = 60
_STYLES = {RunStatus.COMPLETED: "green", RunStatus.FAILED: "red", RunStatus.CANCELLED: "red"}


def _standing(run: RunRecord) -> str:
    """Return how a run stands: its status, unless it completed and what it was for was not done."""
    return run.outcome if run.outcome in (Outcome.REFUSED, Outcome.INCOMPLETE) else run.status.value


def _style(run: RunRecord) -> str:
    if run.outcome == Outcome.REFUSED:
        return "red"
    return "yellow" if run.outcome == Outcome.INCOMPLETE else _STYLES.get(run.status, "yellow")


def run_lines(runs: Sequence[RunRecord], stream: TextIO, *, scores: Sequence[float] = ()) -> Iterator[str]:
    """Yield a line for each run; `scores` say how well each fits a question.

    At a terminal, a second one shows where a search has found it, unless the first already does.
    """
    if not stream.isatty():
        for place, run in enumerate(runs):
            yield (f"{scores[place]:5.2f}  " if scores else "") + _whole(run, stream)
        return
    columns = shutil.get_terminal_size().columns - 1
    length = _distinct([run.run_id for run in runs])
    shows_owner = any(run.owner not in ("", LOCAL_OWNER) for run in runs)
    owners = max((len(_owner(run)) for run in runs), default=0)
    for place, run in enumerate(runs):
        score = f"{scores[place]:5.2f}  " if scores else ""
        status = colour(f"{_standing(run):<11}", _style(run), stream)
        who = f"{_specialists(run):<12}  " if columns >= _WIDE else ""
        owner = f"{_owner(run):<{owners}}  " if shows_owner else ""
        before, behind = f"{score}{run.run_id[:length]}  {_when(run)}  ", f"  {who}{owner}"
        room = max(_SHORTEST_TASK, columns - len(before) - len(f"{_standing(run):<11}") - len(behind))
        task = shorten(_belongs_to(run) + newest_words(run.prompt), room)
        yield f"{before}{status}{behind}{task}"
        if (matched := one_line(run.matched)) and matched.strip("… ") not in task:
            yield colour(f"  {shorten(matched, columns - 2)}", "dim", stream)


def _whole(run: RunRecord, stream: TextIO) -> str:
    owner = plain(run.owner) + " (private)" * (run.visibility is Visibility.PRIVATE)
    line = f"{run.run_id}  {minute(run.created_at)}  {_standing(run):<11}  {_specialists(run):<12}  {owner:<12}  "
    return line + _belongs_to(run) + fit_width(newest_words(run.prompt), _PIPED_TASK, stream)


def _distinct(ids: Sequence[str]) -> int:
    """Return how many characters tell these ids apart; a beginning names a run everywhere."""
    for length in range(_SHORT_ID, max(map(len, ids), default=_SHORT_ID)):
        if len({each[:length] for each in ids}) == len(ids):
            return length
    return max(map(len, ids), default=_SHORT_ID)


def _when(run: RunRecord) -> str:
    created = time.localtime(run.created_at)
    this_year = created.tm_year == time.localtime().tm_year
    return time.strftime("%m-%d %H:%M" if this_year else "%Y-%m-%d ", created)


def _owner(run: RunRecord) -> str:
    return plain(run.owner.removeprefix("user:")) + " (private)" * (run.visibility is Visibility.PRIVATE)


def _specialists(run: RunRecord) -> str:
    return ",".join(run.specialist_ids) or "-"


def _belongs_to(run: RunRecord) -> str:
    """Return which run it continues, or which evaluation it is a trial of."""
    continues = f"(continues {run.continues[:_SHORT_ID]}) " if run.continues else ""
    return continues + (f"(trial of {plain(run.trial_of[:_SHORT_ID])}) " if run.trial_of else "")
