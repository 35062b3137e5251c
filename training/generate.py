"""Writes tasks as lines of JSON, each proven first: the right way does it, and the folder as it is does not.

python -m training.generate 10000 --seed 1 --half train > tasks.jsonl
"""

import argparse
import importlib
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import training.tasks
from training.tasks.draw import TEMPLATES, Draw, half_of
from training.tasks.task import Task


def load_templates() -> dict[str, object]:
    """Import every module of templates."""
    for module in pkgutil.iter_modules(training.tasks.__path__):
        importlib.import_module(f"training.tasks.{module.name}")
    return dict(TEMPLATES)


def play(task: Task, folder: Path) -> str:
    """Do a task in the right way and return what is said in the end."""
    answer = ""
    for step in task.steps:
        match step.tool:
            case "shell":
                subprocess.run(["bash", "-c", step.arguments["command"]], cwd=folder, check=False, capture_output=True)
            case "write_file":
                path = folder / step.arguments["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(step.arguments["content"], encoding="utf-8")
            case "finish_task":
                answer = step.arguments["summary"]
            case _:
                pass  # it only looks
    return answer


def problem_of(task: Task) -> str:
    """Return why a task proves nothing; empty: it is good."""
    with tempfile.TemporaryDirectory() as done, tempfile.TemporaryDirectory() as untouched:
        task.lay(Path(done))
        task.lay(Path(untouched))
        if problem := task.problem(Path(done), play(task, Path(done))):
            return f"the right way does not do it: {problem}"
        if not task.problem(Path(untouched), ""):
            return "it is done before it has begun"
    return ""


def tasks(count: int, seed: int, half: str) -> Iterator[Task]:
    """Return tasks of a half, from each template in turn."""
    names = sorted(name for name in load_templates() if half_of(name) == half)
    for number in range(count):
        name = names[number % len(names)]
        yield TEMPLATES[name](Draw(name, seed * 1_000_003 + number))


def main() -> int:
    parser = argparse.ArgumentParser(description="Write tasks, each proven first.")
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--half", choices=("train", "test"), default="train")
    parser.add_argument("--only", metavar="TEMPLATE", help="draw from this template alone, whatever its half is")
    wanted = parser.parse_args()
    bad, seen = 0, set()
    if wanted.only:
        load_templates()
        drawn: Iterator[Task] = (
            TEMPLATES[wanted.only](Draw(wanted.only, wanted.seed * 1_000_003 + at)) for at in range(wanted.count)
        )
    else:
        drawn = tasks(wanted.count, wanted.seed, wanted.half)
    for task in drawn:
        key = (task.prompt, tuple(task.files.items()))
        if key in seen:
            continue
        seen.add(key)
        if problem := problem_of(task):
            bad += 1
            print(f"{task.template}: {problem}\n  {task.prompt}", file=sys.stderr)
        else:
            print(task.to_json())
    print(f"{len(seen) - bad} tasks, {bad} bad", file=sys.stderr)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
