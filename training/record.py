"""Plays tasks in the real loop, with a model that knows the right way, and keeps its questions and answers.

    python -m training.record tasks.jsonl > conversations.jsonl

So the adapter is trained on the very bytes that the product sends. Each line of the result is one question to the
model: its messages and the answer. Of a task that goes wrong nothing is kept.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from agent_fabric.bootstrap.local import LocalFabric, open_local
from agent_fabric.config.loader import read_config
from agent_fabric.domain.ids import SpecialistId
from agent_fabric.domain.models.dialects.call_text import FENCE, THOUGHT
from agent_fabric.domain.runs.state import result_of
from agent_fabric.domain.runs.task import Budget, Profile, RunStatus
from agent_fabric.domain.runs.task import Task as RunTask
from agent_fabric.infrastructure.packs import engineering
from training.instructions import INSTRUCTIONS
from training.tasks.task import Step, Task

LANGUAGES = {
    "py": "python",
    "sh": "bash",
    "json": "json",
    "yaml": "yaml",
    "html": "html",
    "css": "css",
    "js": "javascript",
}


@dataclass(slots=True)
class Expert:
    """A model that does one task in the right way; every question and answer is kept."""

    steps: list[Step]
    asked: list[dict[str, Any]] = field(default_factory=list)
    problem: str = ""
    _text: Step | None = None
    """The file whose text is asked for next."""

    def answer(self, messages: Sequence[Mapping[str, Any]], schema: Mapping[str, Any] | None) -> str:
        """Return the answer to a question, and keep both."""
        if self._text is not None and schema is None:
            path = str(self._text.arguments["path"])
            mark = LANGUAGES.get(path.rpartition(".")[2], "")
            said = f"{FENCE}{mark}\n{str(self._text.arguments['content']).rstrip()}\n{FENCE}"
            self._text = None
        else:
            said = self._call(schema or {})
        self.asked.append({"messages": list(messages), "answer": said})
        return said

    def _call(self, schema: Mapping[str, Any]) -> str:
        forms = schema.get("oneOf") or [schema]
        offered = [form["properties"]["name"]["const"] for form in forms if "name" in form.get("properties", {})]
        if not self.steps:
            self.problem = self.problem or "the loop goes on behind the last step"
            return json.dumps({"name": "finish_task", "arguments": {"summary": "Done."}})
        step = self.steps.pop(0)
        name, arguments = step.tool, dict(step.arguments)
        why = arguments.pop("why", "It failed; what the message names has to be changed.")
        if name == "write_file":
            self._text, name, arguments = step, "write", {"path": arguments["path"]}
        if offered and name not in offered:
            self.problem = self.problem or f"{name} is not offered, only {', '.join(offered)}"
        thought = {THOUGHT: why} if any(THOUGHT in form.get("properties", {}) for form in forms) else {}
        return json.dumps({**thought, "name": name, "arguments": arguments}, ensure_ascii=False)


async def record(tasks: Sequence[Task], *, level: str) -> Counter[str]:
    """Play tasks one after the other, and print what is kept of them."""
    expert = Expert([])

    async def answer(request: web.Request) -> web.Response:
        body = await request.json()
        schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
        message = {"role": "assistant", "content": expert.answer(body["messages"], schema)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})

    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    told: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "config.yaml").write_text(_config(port, level), encoding="utf-8")
        loaded = read_config({"FABRIC_CONFIG_PATH": str(Path(home) / "config.yaml"), "PATH": os.environ["PATH"]})
        async with open_local(Path(home) / ".fabric", loaded, None, asks_here=False) as fabric:
            for number, task in enumerate(tasks):
                expert.steps, expert.asked, expert.problem = list(task.steps), [], ""
                problem = await _play(fabric, task, Path(home) / "tasks" / str(number)) or expert.problem
                told[problem and f"{task.template}: {problem}"] += 1
                if not problem:
                    kept = {"template": task.template, "half": task.half, "turns": expert.asked}
                    print(json.dumps(kept, ensure_ascii=False))
    await runner.cleanup()
    return told


async def _play(fabric: LocalFabric, task: Task, folder: Path) -> str:
    """Let a run do a task, and return what was wrong with it."""
    folder.mkdir(parents=True)
    task.lay(folder)
    budget = Budget.of(Profile.TASK, max_steps=len(task.steps) * 2 + 6)
    asked = RunTask(
        prompt=task.prompt,
        model_key="expert",
        budget=budget,
        specialist_ids=(SpecialistId("engineering"),),
        network_allowed=False,
        outside_allowed=False,
        trial_of="training",  # so that no person is asked
    )
    claimed = await fabric.execute_task.create(asked, copy_of=str(folder))
    await fabric.execute_task.drive(*claimed)
    result = result_of(claimed.state)
    if result.status is not RunStatus.COMPLETED:
        return f"the run ended as {result.status}: {result.error}"
    assert result.workspace is not None
    return task.problem(Path(result.workspace), str(result.payload.get("summary", "")))


def _config(port: int, level: str) -> str:
    return f"""\
sandbox: {{level: {level}}}
models:
  expert:
    backend: generic
    base_url: http://127.0.0.1:{port}/v1
    model: expert
    dialect: schema
    compact: true
default_model_key: expert
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Play tasks in the real loop, and keep what the model is asked.")
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--level", default="auto", help="of the box around commands")
    wanted = parser.parse_args()
    engineering.COMPACT_PROMPT_ENGINEERING = INSTRUCTIONS
    lines = wanted.tasks.read_text(encoding="utf-8").splitlines()
    told = asyncio.run(record([Task.from_json(line) for line in lines], level=wanted.level))
    for problem, count in told.most_common():
        print(f"{count:6} {problem or 'kept'}", file=sys.stderr)


if __name__ == "__main__":
    main()
