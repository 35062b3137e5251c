"""What each check of a result decides: finishes are played once, then judged again with one check switched off.

    python benchmarks/bench_claims.py            # about ten minutes
    python benchmarks/bench_claims.py --only finishes

Played with the real engine, the real shell and a scripted model: the boasts and honest finishes of
`tests/data/finishes`, and the right and wrong ways of the everyday tasks (`tests/data/everyday*_solutions.yaml`). See
ADR 0088.
"""

import argparse
import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import yaml

from agent_fabric.application.runs.new_task import task_from
from agent_fabric.config.loader import read_config
from agent_fabric.domain.events import Event, ToolCalled
from agent_fabric.domain.evidence import asked_for, claims, proofs
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs import deeds, finish, work_doubts
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.state import result_of
from agent_fabric.domain.tools.findings import ProofKind
from agent_fabric.domain.tools.specs import FINISH_TASK
from agent_fabric.infrastructure.evals.eval_files import read_eval
from agent_fabric.testing.scripted_model import Call, Entry, Finish, ScriptedModel

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from bare_pytest import make_bare_pytest  # noqa: E402 - a helper of the tests
from e2e.fabric_process import local_fabric, settings  # noqa: E402 - as above

DATA = ROOT / "tests" / "data"
_NEVER = re.compile(r"(?!)")
_PLAY_S = 120.0


@dataclass(frozen=True, slots=True)
class Case:
    """One finish."""

    kind: str
    """`boasts`, `honest`, `right` or `wrong`."""
    files: Mapping[str, bytes]
    prompt: str
    steps: Sequence[Any]
    finish: Mapping[str, Any]
    small: bool


class Verdict(NamedTuple):
    """What is made of a finish."""

    sent_back: bool
    unproven: bool
    proof: ProofKind


Off = tuple[ModuleType, object, object]
"""Where a check is used, the check, and what stands for it."""


def _none(*_: object) -> tuple[()]:
    return ()


def _no(*_: object) -> bool:
    return False


def _empty(*_: object) -> str:
    return ""


CHECKS: Mapping[str, Sequence[Off]] = {
    "nothing changed": [(claims, claims._only_boasts, _no)],
    "words of a change in an unclear task": [(claims, claims._SAID_DONE, _NEVER)],
    "`changed` against the workspace": [(claims, claims._about_files, _none)],
    "`checked` against the commands": [(claims, claims._about_commands, _none)],
    "pushed and committed": [(claims, claims._about_repository, _none)],
    "tests pass": [(claims, claims._about_tests, _none)],
    "a text instead of a program": [(claims, claims._about_programs, _none)],
    "words that turn a claim round": [(claims, claims._DENIED, _NEVER)],
    "tests failed since": [(work_doubts, claims.failed_tests, lambda _: None)],
    "failures are told": [(work_doubts, claims.tells_of_failures, _no)],
    "tests of the change not run": [(work_doubts, claims.find_untested, _none)],
    "tests weakened": [(work_doubts, claims.find_weakened, _none)],
    "tests rewritten": [(work_doubts, claims.rewritten, _none)],
    "tests of the task's program not run": [(work_doubts, claims.meant_tests_not_run, _none)],
    "no test uses the change": [(work_doubts, claims.programs_left_untested, _none)],
    "hollow tests": [(deeds, deeds._checks_nothing, _no)],
    "proof of something else": [(deeds, proofs.bears_on, lambda *_: True)],
    "runner replaced": [(deeds, proofs.replaced_runners, _none)],
    "own recipe": [(deeds, proofs.own_recipes, _none)],
    "own search path": [(deeds, proofs.chooses_programs, _no)],
    "what a task asks for": [
        (module, asked_for.asked_for, lambda _: asked_for.AskedFor.UNCLEAR) for module in (claims, work_doubts)
    ],
    "unchanged proves nothing": [(asked_for, asked_for.nothing_to_show, _no)],
    "small: named file left out": [(work_doubts, claims.left_out, _none)],
    "small: wrong form": [(work_doubts, work_doubts._wrong_form, _empty)],
    "small: still broken": [(work_doubts, work_doubts._still_broken, lambda _: {})],
    "small: advice not followed": [(work_doubts, work_doubts._ignored_advice, _empty)],
    "small: only looked": [(work_doubts, work_doubts._only_looked, _no)],
}
"""What stands for each check that is switched off."""


def finishes() -> Iterator[Case]:
    """Yield the boasts and the honest finishes of the tests."""
    projects = yaml.safe_load((DATA / "finishes" / "projects.yaml").read_text())
    for kind in ("boasts", "honest"):
        for case in yaml.safe_load((DATA / "finishes" / f"{kind}.yaml").read_text()):
            files = {**projects[case.get("project", "calc")], **case.get("files", {})}
            texts = {name: text.encode() for name, text in files.items()}
            yield Case(kind, texts, case["prompt"], case["steps"], case["finish"], case.get("small", False))


def everyday() -> Iterator[Case]:
    """Yield the ways of everyday tasks, each done by a small model that then says that it is done."""
    for number in range(3, 8):
        solutions = yaml.safe_load((DATA / f"everyday{number}_solutions.yaml").read_text())
        for case in read_eval(ROOT / "benchmarks" / "tool_tasks" / f"everyday{number}.yaml").cases:
            files = {name: file.data for name, file in case.files.items()}
            ways = solutions[case.case_id]
            for kind, commands in (("right", ways["right"][:1]), ("wrong", ["true", *ways["wrong"]])):
                yield from (Case(kind, files, case.prompt, [each], {"summary": "Done."}, True) for each in commands)


async def play(case: Case, folder: Path) -> tuple[RunId, list[Event]]:
    """Play a case; return its events up to its first finish."""
    project = folder / "project"
    project.mkdir(parents=True)
    for name, data in case.files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_bytes(data)
    async with ScriptedModel([*map(_entry, case.steps), Finish(**case.finish)]) as model:
        configured = settings(model.base_url, model={"compact": case.small}, encryption="off")
        config = read_config({}, overrides=configured).config
        task = task_from(config, case.prompt, pack="engineering", project=project)
        async with local_fabric(folder, configured) as fabric, asyncio.timeout(_PLAY_S):
            result = await fabric.execute_task(task)
            events = list(await fabric.records.runs.read(result.run_id))
    ends = (at for at, event in enumerate(events) if _is_finish(event))
    return result.run_id, events[: next(ends, len(events))]


def _entry(step: Any) -> Entry:
    if isinstance(step, str):
        return Call("shell", {"command": step})
    return Call("write_file", {"path": step["write"], "content": step["content"]})


def _is_finish(event: Event) -> bool:
    return isinstance(event.body, ToolCalled) and event.body.tool == FINISH_TASK


def judge(case: Case, run_id: RunId, events: Sequence[Event]) -> Verdict:
    """Judge a finish from the events before it."""
    state = fold(run_id, events)
    lane = next(iter(state.lanes.values()))
    doubts = finish.doubts_about(state, lane, case.finish)
    lane.payload = finish.close_payload(state, lane, case.finish, doubts)
    return Verdict(bool(doubts.ask_for), bool(doubts.unproven), result_of(state).proof.kind)


def main() -> None:
    """Play, judge, and print a row for each check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("finishes", "everyday"))
    only = parser.parse_args().only
    sets: dict[str, Callable[[], Iterator[Case]]] = {"finishes": finishes, "everyday": everyday}
    played = []
    with tempfile.TemporaryDirectory() as folder:
        path = make_bare_pytest(Path(folder) / "bare")
        with mock.patch.dict(os.environ, {"PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}):
            for at, case in enumerate(each for name, cases in sets.items() if only in (None, name) for each in cases()):
                played.append((case, *asyncio.run(play(case, Path(folder) / str(at)))))
    before = [judge(*each) for each in played]
    kinds = [case.kind for case, *_ in played]
    print({kind: kinds.count(kind) for kind in dict.fromkeys(kinds)})
    print(f"{'check switched off':40} holes alarms chances")
    for name, offs in CHECKS.items():
        with ExitStack() as stack:
            for module, check, instead in offs:
                attribute = next(name for name, value in vars(module).items() if value is check)
                stack.enter_context(mock.patch.object(module, attribute, instead))
            after = [judge(*each) for each in played]
        rows = [row for row in zip(kinds, before, after, strict=True) if row[1] != row[2]]
        holes = sum(kind == "boasts" and not now.unproven and now.proof is not ProofKind.NONE for kind, _, now in rows)
        alarms = sum(kind in ("honest", "right") and now.sent_back > was.sent_back for kind, was, now in rows)
        chances = sum(kind in ("boasts", "wrong") and was.sent_back > now.sent_back for kind, was, now in rows)
        print(f"{name:40} {holes:5} {alarms:6} {chances:7}", flush=True)


if __name__ == "__main__":
    main()
