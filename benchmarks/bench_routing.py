"""Who gets everyday tasks: how often the router is right, whether it asks a model, and how long it takes.

    python benchmarks/bench_routing.py
    python benchmarks/bench_routing.py --wrong

The one-liners of `benchmarks/routing/` say for each the pack that a person would expect; its README says in which
rounds they were written, and what that means. Half of them, by a hash of the line, are held out: the weights of
`domain/packs/signs.py` are not tuned on these, and `--wrong` does not show them.
"""

import argparse
import csv
import time
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import NamedTuple

from agent_fabric.bootstrap.local import specialists_of
from agent_fabric.config.defaults import default_config
from agent_fabric.domain.packs.recruitment import Recruitment, Specialist, by_score, weigh
from agent_fabric.domain.tools.capabilities import AMBIGUOUS_ON_PROJECTS, CAPABILITY_KEYWORDS

ONE_LINERS = Path(__file__).parent / "routing" / "one-liners.tsv"
ROUNDS = 5


class OneLiner(NamedTuple):
    """One task, and who a person expects to do it."""

    round: str
    """The rounds were written one after another; when each was measured first, the table had never met it."""
    pack: str
    language: str
    folder: str
    """What lies in the project folder; `-`: there is none."""
    task: str

    @property
    def held_out(self) -> bool:
        """Whether nothing may be tuned on it."""
        return sha256(self.task.encode()).digest()[0] % 2 == 1


class Routed(NamedTuple):
    """One task, and who got it."""

    line: OneLiner
    choice: Recruitment | None
    """None: a model would be asked."""
    milliseconds: float

    @property
    def right(self) -> bool:
        """Whether the expected pack does it, alone."""
        return self.choice is not None and self.choice.specialist_ids == (self.line.pack,)


def one_liners() -> list[OneLiner]:
    """Return all labelled tasks."""
    with ONE_LINERS.open(encoding="utf-8", newline="") as file:
        return [OneLiner(**row) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def built_in() -> list[Specialist]:
    """Return the specialists of a fresh installation."""
    return specialists_of(default_config().specialists)


def route(line: OneLiner, specialists: Sequence[Specialist]) -> Routed:
    """Choose for one task as a run does."""
    started = time.perf_counter()
    evidence = weigh(
        line.task,
        specialists,
        CAPABILITY_KEYWORDS,
        project=line.folder != "-",
        ambiguous=AMBIGUOUS_ON_PROJECTS,
    )
    choice = by_score(evidence)
    return Routed(line, choice, (time.perf_counter() - started) * 1000)


def report(name: str, routed: Sequence[Routed]) -> None:
    """Print how many of some tasks are right."""
    right = sum(each.right for each in routed)
    unclear = sum(each.choice is None for each in routed)
    print(f"{name:24}{right:4} of {len(routed):4} right ({right / len(routed):6.1%}), a model asked for {unclear}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wrong", action="store_true", help="list what is wrong in the half that is tuned on")
    arguments = parser.parse_args()
    specialists = built_in()
    lines = one_liners()
    first = route(lines[0], specialists).milliseconds
    rounds = [[route(line, specialists) for line in lines] for _ in range(ROUNDS)]
    routed = rounds[0]
    halves = {held: [each for each in routed if each.line.held_out is held] for held in (False, True)}
    report("tuned on", halves[False])
    report("held out", halves[True])
    for number in sorted({line.round for line in lines}):
        report(f"  held out, round {number}", [each for each in halves[True] if each.line.round == number])
    for language in sorted({line.language for line in lines}):
        report(f"  held out, {language}", [each for each in halves[True] if each.line.language == language])
    for pack in sorted({line.pack for line in lines}):
        report(f"  held out, {pack}", [each for each in halves[True] if each.line.pack == pack])
    times = sorted(median(times) for times in zip(*([e.milliseconds for e in each] for each in rounds), strict=True))
    print(f"per task: median {median(times):.3f} ms, slowest {times[-1]:.3f} ms; the very first {first:.3f} ms")
    print("chosen by:", ", ".join(f"{method} {n}" for method, n in methods(routed).most_common()))
    if arguments.wrong:
        for each in halves[False]:
            if not each.right:
                said = (
                    "a model" if each.choice is None else f"{each.choice.specialist_ids[0]}: {each.choice.reasons[0]}"
                )
                print(f"  {each.line.pack:12} {each.line.folder[:12]:12} {each.line.task[:60]:60} {said}")


def methods(routed: Sequence[Routed]) -> Counter[str]:
    """Count how the choices came about."""
    return Counter("model" if each.choice is None else str(each.choice.method) for each in routed)


if __name__ == "__main__":
    main()
