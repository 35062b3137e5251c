"""What came of a run, in lines for a terminal: what it did, what bears it out, and what it changed in a project."""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TextIO

from agent_fabric.domain.evidence.citations import UNFETCHED
from agent_fabric.domain.evidence.proofs import UNPROVEN, UNVERIFIED, Proof
from agent_fabric.domain.packs.contents import ARTIFACTS, CHANGED, texts_under
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.effects import HEADS, Effects, Outcome, done_lines, doubts_beyond, open_lines
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.domain.tools.findings import ProofKind
from agent_fabric.interfaces.cli.output import colour, laid_out, plain, plain_lines

if TYPE_CHECKING:
    from agent_fabric.application.runs.diff_run import RunDiff
    from agent_fabric.domain.runs.changes import FileChange
    from agent_fabric.domain.runs.unified_diff import FileDiff


def warning_lines(effects: Effects, outcome: Outcome | None, stream: TextIO) -> Iterator[str]:
    """Yield what contradicts that all is done, to stand above what the model says; nothing, if nothing does."""
    if not effects.open:
        return
    yield colour(HEADS.get(outcome or Outcome.INCOMPLETE, HEADS[Outcome.INCOMPLETE]), "red", stream)
    for line in open_lines(effects):
        label, colon, rest = line.partition(": ")
        shown = f"{colour(f'{plain(label)}:', 'yellow', stream)} {plain(rest)}" if colon else plain(line)
        yield laid_out(f"  {shown}", stream, indent="    ")


def effect_texts(effects: Effects, stream: TextIO, *, files: bool) -> Iterator[str]:
    """Yield what left this machine and what changed; `files`: the changed files, too."""
    yield from (laid_out(plain(line), stream, indent="  ") for line in done_lines(effects, files=files))


def closing_lines(effects: Effects, outcome: Outcome | None, stream: TextIO) -> Iterator[str]:
    """Yield the last line of a result that is not what it says: who reads no other line is not misled."""
    if not effects.open or outcome not in HEADS:
        return
    first = next(iter(open_lines(effects)))
    more = f" (and {len(effects.open) - 1} more, see above)" if len(effects.open) > 1 else ""
    yield f"{colour(f'{outcome.value}:', 'red', stream)} {plain(first)}{more}"


_MAX_LISTED = 12


def changed_lines(result: RunResult) -> Iterator[str]:
    """Say which files were changed, and which others a specialist names. Of a project, the diff says more."""
    changed = texts_under(result.payload, CHANGED)
    if changed and result.workspace.endswith(f"/{result.run_id}/workspace"):
        yield _paths_line(CHANGED, changed)
    others = [path for path in texts_under(result.payload, ARTIFACTS) if path not in changed]
    if others:
        yield _paths_line(ARTIFACTS, others)


def evidence_lines(result: RunResult, stream: TextIO) -> Iterator[str]:
    """Say what bears a finished result out, or why nothing does."""
    if unproven := result.payload.get(UNPROVEN):
        if doubts := doubts_beyond(str(unproven), result.effects):
            yield f"{colour('unproven:', 'yellow', stream)} {plain(doubts)}"
    elif result.proof:
        yield f"{colour(proof_words(result.proof), 'green', stream)} {plain_lines(result.proof.command)}"
        yield from (f"  {colour(plain(line), 'dim', stream)}" for line in result.proof.printed.splitlines())
    if unverified := texts_under(result.payload, UNVERIFIED):
        yield f"{colour('in no result:', 'yellow', stream)} {', '.join(map(plain, unverified))}"


def unfetched_lines(result: RunResult, stream: TextIO) -> Iterator[str]:
    """Name the pages that a result cites and that its run has not fetched."""
    if unfetched := result.payload.get(UNFETCHED):
        urls = [str(each.get("url", each) if isinstance(each, Mapping) else each) for each in unfetched]
        yield f"{colour('cited, but not fetched:', 'yellow', stream)} {', '.join(map(plain, urls))}"


def proof_words(proof: Proof) -> str:
    """Say what kind of proof there is, before the command that gave it."""
    match proof.kind:
        case ProofKind.TESTS if proof.tests is not None:
            own = " of its own" if proof.own_tests else ""
            changed = f" (it changed {', '.join(map(plain, proof.changed_tests))})" if proof.changed_tests else ""
            return f"proven by {count_of(proof.tests.passed, 'test')}{own}{changed}:"
        case ProofKind.PROGRAM:
            return "it runs:"
        case ProofKind.BUILD:
            return "it builds:"
        case _:
            return "proven by:"


def _paths_line(key: str, paths: list[str]) -> str:
    more = f" and {len(paths) - _MAX_LISTED:,} more" if len(paths) > _MAX_LISTED else ""
    return f"{key}: {', '.join(map(plain, paths[:_MAX_LISTED]))}{more}"


NOTHING: Final = "changed: nothing\n"
"""What is said of a run that changed no file of a project."""
MAX_NAMED: Final = 10
"""Paths that are listed at a terminal."""
MAX_COMPARED: Final = 500
"""Changed paths whose lines are counted; more would keep a person waiting."""


def change_summary(found: "RunDiff", compare: "Callable[[FileChange], FileDiff]") -> str:
    """Return the number of changed files and lines, the files, and the commands to see and revert the changes."""
    from agent_fabric.domain.runs.unified_diff import quote_path  # noqa: PLC0415 - only for projects

    changes = found.changes
    if not changes:
        return NOTHING
    files = f"{len(changes):,} {'file' if len(changes) == 1 else 'files'}"
    if len(changes) > MAX_COMPARED:
        lines = [f"changed: {files}"]
    else:
        compared = [compare(change) for change in changes]
        added, removed = (sum(counts) for counts in zip(*((one.added, one.removed) for one in compared), strict=True))
        lines = [f"changed: {files}, {_counts(added, removed)}"]
        named = MAX_NAMED if sys.stdout.isatty() else len(changes)
        lines += [
            f"  {change.what:<9} {'binary' if one.binary else _counts(one.added, one.removed)}  "
            f"{quote_path(change.path)}"
            for change, one in zip(changes[:named], compared, strict=False)
        ]
        if len(changes) > named:
            lines.append(f"  … and {len(changes) - named:,} more")
    return "\n".join([*lines, f"diff:  fabric diff {found.run_id}", f"undo:  fabric undo {found.run_id}"]) + "\n"


def _counts(added: int, removed: int) -> str:
    return f"{colour(f'+{added}', 'green', sys.stdout)} {colour(f'-{removed}', 'red', sys.stdout)}"
