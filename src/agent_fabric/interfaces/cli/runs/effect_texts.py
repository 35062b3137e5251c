"""What a run did to the world, and was kept from doing, in lines for a terminal."""

from collections.abc import Iterator
from typing import TextIO

from agent_fabric.domain.runs.effect_lines import HEADS, done_lines, open_lines
from agent_fabric.domain.runs.effects import Effects, Outcome
from agent_fabric.interfaces.cli.output import laid_out, plain, styled


def warning_lines(effects: Effects, outcome: Outcome | None, stream: TextIO) -> Iterator[str]:
    """Yield what contradicts that all is done, to stand above what the model says; nothing, if nothing does."""
    if not effects.open:
        return
    yield styled(HEADS.get(outcome or Outcome.INCOMPLETE, HEADS[Outcome.INCOMPLETE]), "red", stream)
    for line in open_lines(effects):
        label, colon, rest = line.partition(": ")
        shown = f"{styled(f'{plain(label)}:', 'yellow', stream)} {plain(rest)}" if colon else plain(line)
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
    yield f"{styled(f'{outcome.value}:', 'red', stream)} {plain(first)}{more}"
