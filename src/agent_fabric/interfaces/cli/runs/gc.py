"""`fabric gc`: take old runs away."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.bootstrap.records import open_records, this_person
from agent_fabric.bootstrap.runs import collect_garbage
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.plural import count_of
from agent_fabric.interfaces.cli.durations import seconds_in
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import configuration, own_root
from agent_fabric.interfaces.cli.output import plain, print_warning
from agent_fabric.interfaces.cli.place import RUNS, Noun, Place, here
from agent_fabric.interfaces.cli.runs.run_list import run_lines
from agent_fabric.wire.audit import COLLECTED
from agent_fabric.wire.shape import Json

app = new_app("Delete old runs.")


class _LocalRuns:
    """The runs of a fabric folder, which must not have been made elsewhere."""

    def __init__(self, at: Place) -> None:
        self._root = own_root(at.workspace)

    async def collect_garbage(self, *, older_than_s: float, keep: int, dry_run: bool) -> Json:
        with open_records(self._root) as opened:
            records = opened
            if opened.storage.cluster is not None:  # others may have saved files of runs
                from agent_fabric.bootstrap.runs import archive_here  # noqa: PLC0415 - most stores are files

                records = replace(opened, archive=archive_here(configuration(self._root).config, opened.layout))
            collect = collect_garbage(records)
            try:
                return COLLECTED.dump(
                    await collect(older_than_s=older_than_s, by=this_person(), keep=keep, dry_run=dry_run)
                )
            finally:
                if records.archive is not None:
                    await records.archive.objects.aclose()


_old_runs = Noun(here(_LocalRuns), lambda client: client.audit)


@app.command()
def gc(
    older_than: Annotated[str, typer.Option(metavar="AGE", help="Such as 30d, 12h or 2w.")] = "30d",
    keep: Annotated[int, typer.Option(min=0, help="Of these, keep the newest ones.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    *,
    at: Place,
) -> int:
    """Delete runs that settled long ago, with their files; each leaves a tombstone for `fabric audit verify`.

    Exit codes: 0 done, 1 something was left alone, since its folder has become a link.
    """
    age = seconds_in(older_than)
    done = _old_runs(at, lambda runs: runs.collect_garbage(older_than_s=age, keep=keep, dry_run=dry_run))
    runs = done["removed"]
    text = f"{count_of(len(runs), 'run')} removed, {done['freed_bytes'] / 1e6:.1f} MB freed."
    if dry_run and not at.as_json:
        text = "\n".join((*_lines(runs, at), f"{count_of(len(runs), 'run')} would be removed."))
    at.print(done, f"{text}\n")
    refused = done.get("refused", [])
    for sentence in refused:
        print_warning(sentence)
    return FAILED if refused else COMPLETED


def _lines(run_ids: Sequence[str], at: Place) -> Iterator[str]:
    """Yield a line for each run, as in lists; of one that its caller may not see, only its id."""
    if not run_ids:
        return
    found: Sequence[RunRecord] = RUNS(at, lambda runs: runs.recent(limit=-1))
    known = {record.run_id: record for record in found}
    seen = [known[RunId(run_id)] for run_id in run_ids if run_id in known]
    yield from run_lines(seen, sys.stdout)
    yield from (plain(run_id) for run_id in run_ids if run_id not in known)
