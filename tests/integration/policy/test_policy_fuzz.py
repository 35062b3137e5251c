"""Our reading of command lines against bash's own: what the policy allows is run, with stubs that tell what started."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count
from pathlib import Path

import pytest

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.rules import CommandPattern, Rule
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.tools.specs import Effect
from command_lines import FORBIDDEN, HARMLESS, LineMaker
from effort import effort, report
from services import need_program

LINES = effort(3_000, 50_000)
BATCH = 400
CONTROL = 40
"""Of the lines that were not allowed, one in so many is run as well: they show that the stubs tell."""
STARTERS = frozenset(
    {"bash", "chrt", "dash", "echo", "env", "false", "find", "flock", "ionice", "nice", "nohup", "printf", "setsid"}
    | {"sh", "stdbuf", "taskset", "time", "timeout", "true", "xargs"}
)
"""Programs that are there for real, since they start others."""
STUB = """#!/bin/sh
{ printf '%s\\037' "${0##*/}" "$@"; printf '\\036'; } >> /record/log
"""
DRIVER = """
ulimit -t 5 -u 400
n=0
while IFS= read -r -d '' line; do
    printf '#%d\\036' "$n" >> /record/log
    /usr/bin/timeout -s KILL 1 /bin/bash -c "$line" < /dev/null > /dev/null 2>&1
    n=$((n + 1))
done < /record/lines
"""

BLOCKS = RulePolicy(
    profile=Profile.OPEN,
    rules=tuple(
        Rule(id=text.replace(" ", "-"), verdict=Verdict.BLOCK, commands=(CommandPattern(text=text),))
        for text in (*FORBIDDEN, "git push")
    ),
)
ALLOWLIST = RulePolicy(profile=Profile.WORKSPACE)


def allowed(policy: RulePolicy, line: str) -> bool:
    call = ProposedCall(tool="shell", args={}, effect=Effect.CHANGES_WORKSPACE, command=line, sandbox="A")
    return policy.judge(call).verdict is Verdict.ALLOW


class Recorder:
    """Runs lines by bash, in a box, and tells which forbidden programs each of them started."""

    def __init__(self, folder: Path) -> None:
        self._bwrap = need_program("bwrap", package="bubblewrap")
        self._folder = folder
        stubs = folder / "stubs"
        stubs.mkdir()
        for name in {*FORBIDDEN, *HARMLESS} - STARTERS:
            (stubs / name).write_text(STUB)
            (stubs / name).chmod(0o755)
        for name in STARTERS:
            if path := shutil.which(name):
                (stubs / name).symlink_to(Path(path).resolve())
        self._numbers = count(1)

    def started(self, lines: Sequence[str]) -> list[set[str]]:
        record = self._folder / f"record-{next(self._numbers)}"
        record.mkdir(mode=0o777)
        record.chmod(0o777)
        (record / "lines").write_bytes(b"".join(line.encode("utf-8", "surrogateescape") + b"\0" for line in lines))
        system = [["--ro-bind", name, name] for name in ("/usr", "/bin", "/lib", "/lib64") if Path(name).exists()]
        box = ["--unshare-all", "--die-with-parent", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/work"]
        stubs = ["--ro-bind", str(self._folder / "stubs"), "/stubs", "--bind", str(record), "/record"]
        start = ["--chdir", "/work", "--clearenv", "--setenv", "PATH", "/stubs", "--setenv", "HOME", "/work"]
        subprocess.run(
            [self._bwrap, *chain(*system), *box, *stubs, *start, "/bin/bash", "-c", DRIVER],
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=120,
        )
        found: list[set[str]] = [set() for _ in lines]
        at = 0
        for entry in (record / "log").read_text(errors="replace").split("\036"):
            if entry.startswith("#") and entry[1:].isdigit():
                at = int(entry[1:])
                continue
            name, *arguments = entry.split("\037")
            if name in FORBIDDEN or (name == "git" and _pushes(arguments)):
                found[at].add(name)
        return found


def _pushes(arguments: list[str]) -> bool:
    rest = iter(arguments)
    for word in rest:
        if word in {"-C", "-c"}:
            next(rest, None)
        elif not word.startswith("-"):
            return word == "push"
    return False


def _batches(lines: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (lines[at : at + size] for at in range(0, len(lines), size))


def fuzz(recorder: Recorder, seed: int, number: int) -> tuple[int, int, list[tuple[str, set[str]]]]:
    """Return how many lines were allowed, how many others started something forbidden, and what should not have."""
    permitted: list[str] = []
    control: list[str] = []
    for line in dict.fromkeys(LineMaker(seed).lines(number)):
        if allowed(BLOCKS, line) or allowed(ALLOWLIST, line):
            permitted.append(line)
        else:
            control.append(line)

    def run(lines: Sequence[str]) -> Iterator[tuple[str, set[str]]]:
        return zip(lines, recorder.started(lines), strict=True)

    with ThreadPoolExecutor(2) as pool:
        suspects = [line for batch in pool.map(run, _batches(permitted, BATCH)) for line, programs in batch if programs]
        caught = sum(
            bool(programs) for batch in pool.map(run, _batches(control[::CONTROL], BATCH)) for _, programs in batch
        )
    # What was still running when the next line began is counted to that one: look at each suspect alone.
    alone = [(line, recorder.started([line])[0]) for line in suspects[:50]]
    return len(permitted), caught, [(line, programs) for line, programs in alone if programs]


@pytest.mark.slow
@pytest.mark.proves("AF-121", "A33-084")
def test_bash_starts_nothing_forbidden_in_a_line_that_was_allowed(tmp_path: Path) -> None:
    permitted, caught, holes = fuzz(Recorder(tmp_path), seed=1, number=LINES)
    report("command lines judged and compared with bash", LINES)
    assert holes == []
    assert permitted > LINES / 20
    assert caught > LINES // 500, "the stubs tell nothing, so the test proves nothing"
