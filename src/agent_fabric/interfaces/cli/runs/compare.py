"""`fabric compare`: lay two runs beside each other."""

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.comparison import CALLED, GOT, ONLY, SAID, ComparedRun, Comparison, Turn, TurnPair
from agent_fabric.domain.runs.unified_diff import quote_path
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.output import colour, fit_width, one_line, plain
from agent_fabric.interfaces.cli.place import RUNS, Place, RunAccess
from agent_fabric.interfaces.cli.runs.step_lines import seconds
from agent_fabric.wire.comparisons import COMPARISON

app = new_app("Compare two runs: where they part, and what each left.")

_WORDS = {SAID: "other words", CALLED: "other calls", GOT: "other results"}
_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_CONTEXT = 2
"""Turns before the parting that are shown."""
_MAX_CHARS = 160


@app.command()
def compare(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help="A run, or the beginning of its id.")],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="The run to compare it with.")],
    full: Annotated[bool, typer.Option("--full", help="All turns, and all that was said and returned.")] = False,
    stat: Annotated[bool, typer.Option("--stat", help="Only the figures, and which files differ.")] = False,
    *,
    at: Place,
) -> int:
    """Compare two runs: what they began with, where they part, what each did from there on, and the files at the end.

    Exit codes: 0 the same, 1 they differ, 2 wrong usage or no such run.
    """

    async def go(runs: RunAccess) -> Comparison:
        return await runs.compare(await runs.find(run_a), await runs.find(run_b))

    found = RUNS(at, go)
    at.print(COMPARISON.dump(found), "\n".join(_report(found, full=full, stat=stat)) + "\n")
    return COMPLETED if found.same else FAILED


def _report(found: Comparison, *, full: bool, stat: bool) -> Iterator[str]:
    yield from _figures(found.a, found.b)
    for setting in found.settings:
        if full or "\n" not in setting.a + setting.b:
            yield from _two(f"{setting.name}:", setting.a or "-", setting.b or "-", full=full)
        else:
            yield f"{setting.name}: not the same (--full shows both)"
    yield ""
    if not stat:
        yield from _turns(found, full=full)
        yield ""
    yield from _files(found, stat=stat)


def _figures(a: ComparedRun, b: ComparedRun) -> Iterator[str]:
    rows = [("", "A", "B")]
    rows += [("run", a.run_id[:8], b.run_id[:8]), ("model", a.model or "-", b.model or "-")]
    rows += [("status", _ending(a), _ending(b)), ("proof", a.proof, b.proof)]
    rows += [("turns", str(a.turns), str(b.turns)), ("calls", _calls_text(a), _calls_text(b))]
    rows += [("tokens", f"{a.tokens:,}", f"{b.tokens:,}"), ("time", _time(a), _time(b)), ("cost", _cost(a), _cost(b))]
    left = max(len(plain(row[1])) for row in rows)
    for name, one, other in rows:
        yield f"{name:<8}{plain(one):<{left}}  {plain(other)}".rstrip()


def _turns(found: Comparison, *, full: bool) -> Iterator[str]:
    if found.parts_at is None:
        yield f"All {count_of(len(found.pairs), 'turn')} are the same."
        return
    yield f"They part at turn {found.parts_at + 1} of {len(found.pairs)}."
    first = 0 if full else max(0, found.parts_at - _CONTEXT)
    lanes = len({pair.lane for pair in found.pairs}) > 1
    for number, pair in enumerate(found.pairs[first:], start=first):
        yield from _pair(number, pair, named=lanes, full=full)


def _pair(number: int, pair: TurnPair, *, named: bool, full: bool) -> Iterator[str]:
    lane = f" {plain(pair.lane)}" if named else ""
    if not pair.differs:
        yield f"= {number + 1}{lane}  {_line(pair.a, full=full)}"
        return
    why = (
        "only in " + ("A" if pair.b is None else "B")
        if ONLY in pair.differs
        else ", ".join(_WORDS[each] for each in pair.differs)
    )
    yield colour(f"≠ {number + 1}{lane}  {why}", "yellow", sys.stdout)
    for name, style, turn in (("A", "red", pair.a), ("B", "green", pair.b)):
        if turn is not None:
            yield from (colour(f"  {name} {line}", style, sys.stdout) for line in _turn(turn, pair.differs, full=full))


def _line(turn: Turn | None, *, full: bool) -> str:
    """Return a turn in one line."""
    if turn is None:
        return ""
    calls = "; ".join(f"{call.tool} {call.arguments}" for call in turn.calls)
    return _short(calls or turn.content, full=full)


def _turn(turn: Turn, differs: tuple[str, ...], *, full: bool) -> Iterator[str]:
    if turn.content and (full or SAID in differs or not turn.calls):
        yield f"said    {_short(turn.content, full=full)}"
    for call in turn.calls:
        yield f"called  {_short(f'{call.tool} {call.arguments}', full=full)}"
        if call.result and (full or GOT in differs or call.failed):
            yield f"{'failed' if call.failed else 'got':<7} {_short(call.result, full=full)}"


def _files(found: Comparison, *, stat: bool) -> Iterator[str]:
    if not found.files:
        yield (
            f"Files: {count_of(found.same_files, 'file')} changed by both, all the same."
            if found.same_files
            else ("Files: neither left any that differ.")
        )
        return
    yield f"Files: {count_of(len(found.files), 'path')} differ, {found.same_files} the same."
    for file in found.files:
        where = "in both" if file.in_a and file.in_b else "only in A" if file.in_a else "only in B"
        size = "not compared" if file.diff is None else "binary" if file.binary else f"+{file.added} -{file.removed}"
        yield f"  {where:<10} {size:>12}  {quote_path(file.path)}"
    for file in () if stat else found.files:
        for line in (file.diff or "").splitlines():
            style = _STYLES.get(line[:1])
            yield colour(plain(line), style, sys.stdout) if style else plain(line)


def _two(name: str, a: str, b: str, *, full: bool) -> Iterator[str]:
    yield name
    yield f"  A {_short(a, full=full)}"
    yield f"  B {_short(b, full=full)}"


def _short(text: str, *, full: bool) -> str:
    return one_line(text) if full else fit_width(one_line(text)[:_MAX_CHARS], _MAX_CHARS, sys.stdout)


def _ending(run: ComparedRun) -> str:
    return f"{run.status.value} ({run.outcome})" if run.outcome and run.outcome != "done" else run.status.value


def _calls_text(run: ComparedRun) -> str:
    return f"{run.calls} ({run.failed_calls} failed)" if run.failed_calls else str(run.calls)


def _time(run: ComparedRun) -> str:
    return seconds(run.duration_s)


def _cost(run: ComparedRun) -> str:
    return "-" if run.cost is None else f"{run.cost:.4f}"
