"""Records a store as this version leaves it, for later versions to open: `python scripts/record_store.py FOLDER`.

A real server works through some 200 scenes with a scripted model: programs that are written and run, failures,
denials, edits, cancellations, kills, workflows, sessions, task forces, memory, schedules, an evaluation. Three files
are left: a backup of the folder, a dump of the same store in PostgreSQL, and what this version says about each run.
`tests/integration/persistence/test_recorded_stores.py` holds every later version against them.
"""

import argparse
import asyncio
import json
import lzma
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from agent_fabric.testing.scripted_model import (  # noqa: E402 - the path comes first
    Answer,
    Call,
    Calls,
    Cut,
    Entry,
    Finish,
    Say,
    Script,
    ScriptedModel,
    Slow,
    Status,
    Turn,
)
from e2e.fabric_process import Fabric, local_fabric, settings  # noqa: E402
from e2e.server_process import Serving, serving  # noqa: E402
from postgres_cluster import Cluster, run_cluster  # noqa: E402
from recorded_stores import BACKUP, DUMP, EXPECTED, describe  # noqa: E402

AT_ONCE = 4
WAIT_S = 60.0
PUSH = "git push origin main"
_SCENE = re.compile(r"\[\[scene=([a-z-]+)/(\d+)\]\]")

WORKFLOWS = {
    "steps": """
name: steps
version: 1.0.0
inputs: {n: {type: integer, required: true}}
steps:
  - {id: shape, action: transform, inputs: {text: "number {{ inputs.n }}"}}
  - {id: echo, action: run-command, command: "echo {{ inputs.n }}", depends_on: [shape]}
  - {id: check, action: validate, inputs: {data: {n: "{{ inputs.n }}"}, schema: {type: object, required: [n]}}}
""",
    "asks": """
name: asks
version: 1.0.0
inputs: {n: {type: integer, required: true}}
steps:
  - {id: agree, action: approve, inputs: {message: "Go on with {{ inputs.n }}?"}}
  - {id: echo, action: run-command, command: "echo agreed", depends_on: [agree]}
""",
    "fails": """
name: fails
version: 1.0.0
inputs: {n: {type: integer, required: true}}
execution: {continue_on_error: true}
steps:
  - {id: bad, action: run-command, command: "exit 3", retry: {max_attempts: 2, delay_seconds: 0}}
  - {id: good, action: run-command, command: "echo still", idempotent: true}
""",
    "children": """
name: children
version: 1.0.0
inputs: {n: {type: integer, required: true}}
steps:
  - id: each
    action: for-each
    inputs: {items: [1, 2]}
    steps:
      - {id: sub, action: workflow, workflow: steps, inputs: {n: "{{ item }}"}}
""",
}


def _programs(n: int) -> list[Entry]:
    code = f"print(sum(range({n})))\n"
    return [
        Call("write_file", {"path": f"sum_{n}.py", "content": code}),
        Call("shell", {"command": f"python3 sum_{n}.py"}),
        Finish(summary=f"sum_{n}.py prints {sum(range(n))}"),
    ]


def _tests(n: int) -> list[Entry]:
    body = f"    def test_it(self):\n        self.assertEqual({n} + 1, {n + 1})\n"
    test = f"import unittest\n\nclass T(unittest.TestCase):\n{body}"
    return [
        Calls(
            (Call("list_files", {"path": "."}), Call("write_file", {"path": "test_it.py", "content": test})), "Both."
        ),
        Call("shell", {"command": "python3 -m unittest -v test_it"}),
        Finish(summary="One test passes.", files_changed=["test_it.py"]),
    ]


def _looks(n: int) -> list[Entry]:
    return [Call("list_files", {"path": "."}), Finish(summary=f"There is nothing here ({n}).")]


def _mends(n: int) -> list[Entry]:
    return [
        Call("write_file", {"path": "a.sh", "content": f"exit {n % 5 + 1}\n"}),
        Call("shell", {"command": "bash a.sh"}),
        Call("read_file", {"path": "missing.txt"}),
        Call("write_file", {"path": "a.sh", "content": "echo mended\n"}),
        Call("shell", {"command": "bash a.sh"}),
        Finish(summary="It is mended."),
    ]


def _pushes(n: int) -> list[Entry]:
    return [
        Call("write_file", {"path": "notes.md", "content": f"# {n}\n" + "a line\n" * (n % 40)}),
        Call("shell", {"command": PUSH}),
        Finish(summary="Pushed."),
    ]


def _stumbles(n: int) -> list[Entry]:
    faults = (Status(503), Cut(Say("half an answer"), 40), Status(429, retry_after=0.01))[: n % 3 + 1]
    return [Turn(Call("list_files", {"path": "."}), faults=faults), Finish(summary="Done after all.")]


def _refused(_: int) -> list[Entry]:
    return [Call("list_files", {"path": "."}), Status(401, times=9)]


def _endless(n: int) -> list[Entry]:
    return [Call("shell", {"command": f"echo {n} {turn}"}) for turn in range(6)]


def _garbage(n: int) -> list[Entry]:
    return [Call("write_file", '{"path": '), Call("no_such_tool", {"n": n}), *_looks(n)]


def _long(n: int) -> list[Entry]:
    text = "".join(f"line {line} of {n}\n" for line in range(6_000))
    return [
        Call("write_file", {"path": "long.txt", "content": text}),
        Call("shell", {"command": "cat long.txt"}),
        Finish(summary="A long file."),
    ]


def _slow(n: int) -> list[Entry]:
    return [Call("list_files", {"path": "."}), Slow(Finish(summary=f"Slow {n}"), 3.0)]


SCENES: Mapping[str, Callable[[int], list[Entry]]] = {
    "programs": _programs,
    "tests": _tests,
    "looks": _looks,
    "mends": _mends,
    "pushes": _pushes,
    "stumbles": _stumbles,
    "refused": _refused,
    "endless": _endless,
    "garbage": _garbage,
    "long": _long,
    "slow": _slow,
}


def answer(request: dict[str, Any], attempt: int) -> Answer:
    """Play the scene that the newest message of a person names."""
    texts = [str(message.get("content")) for message in request["messages"] if message["role"] == "user"]
    found = [match for text in texts for match in _SCENE.finditer(text)]
    if not found:
        return Say("There is nothing to do.")
    last = found[-1]
    place = max(at for at, each in enumerate(request["messages"]) if last[0] in str(each.get("content")))
    since = {**request, "messages": request["messages"][place:]}
    return Script(SCENES[last[1]](int(last[2])))(since, attempt)


def scene(name: str, n: int) -> str:
    """Return the task that plays a scene."""
    return f"Please do number {n}. [[scene={name}/{n}]]"


class Recorder:
    """A person at a server who does all kinds of things."""

    def __init__(self, server: Serving) -> None:
        self.server = server
        self.limit = asyncio.Semaphore(AT_ONCE)

    async def post(self, path: str, body: Any = None, *codes: int) -> Any:
        """Send something, and expect it to be taken."""
        answered = await self.server.client.post(path, json=body)
        assert answered.status_code in (codes or (200, 201, 202, 204)), (path, answered.status_code, answered.text)
        return answered.json() if answered.content else None

    async def run(self, name: str, n: int, **more: Any) -> dict[str, Any]:
        """Do a task, as far as it goes without a person."""
        async with self.limit:
            body = {"prompt": scene(name, n), "pack": "engineering", **more}
            return dict(await self.post("/run", body, 200, 202, 422, 502, 503))

    async def question(self, run_id: str) -> dict[str, Any]:
        """Wait until a run asks; empty: it has ended without a question."""
        async with asyncio.timeout(WAIT_S):
            while True:
                found = (await self.server.client.get("/approvals", params={"run_id": run_id})).json()["approvals"]
                if found or await self.status(run_id) not in ("running", "waiting"):
                    return dict(found[0]) if found else {}
                await asyncio.sleep(0.05)

    async def status(self, run_id: str) -> str:
        """Return how a run stands."""
        return str((await self.server.client.get(f"/runs/{run_id}/status")).json()["status"])

    async def settled(self, run_id: str) -> None:
        """Wait until a run has ended."""
        async with asyncio.timeout(WAIT_S):
            while await self.status(run_id) in ("running", "waiting"):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)

    async def push(self, n: int) -> None:
        """Answer a question in one of all ways; some stay open."""
        outside = {"outside_allowed": False} if n < 24 else {}
        run_id = (await self.run("pushes", n, **outside))["_meta"]["run_id"]
        asked = await self.question(run_id)
        if not asked:
            return
        path, args = f"/approvals/{asked['id']}", asked.get("args") or {"command": PUSH}
        match n % 6:
            case 0:
                await self.post(path, {"decision": "deny", "reason": "Not today."})
            case 1:
                await self.post(path, {"decision": "approve"})
            case 2:
                await self.post(
                    path, {"decision": "approve", "args": {**args, "command": "echo instead"}}, 200, 409, 422
                )
            case 3:
                await self.post(path, {"decision": "approve", "scope": "run"}, 200, 409, 422)
            case 4:
                await self.post(f"/runs/{run_id}/cancel", {"reason": "a freeze"})
            case _:
                return
        await self.settled(run_id)

    async def workflow(self, name: str, n: int) -> None:
        """Run a workflow; half of the questions are denied."""
        async with self.limit:
            path = f"/api/v1/workflows/{name}/execute?wait=false"
            run_id = (await self.post(path, {"n": n}))["run_id"]
            if name == "asks":
                asked = await self.question(run_id)
                decision = "approve" if n % 2 else "deny"
                await self.post(f"/approvals/{asked['id']}", {"decision": decision, "reason": "as agreed"})
            await self.settled(run_id)

    async def session(self, n: int) -> None:
        """Talk in three turns."""
        session = (await self.post("/api/v1/sessions", {"title": f"Talk {n}"}))["id"]
        for turn, name in enumerate(("looks", "programs", "mends")):
            async with self.limit:
                told = await self.post(f"/api/v1/sessions/{session}/messages", {"content": scene(name, n * 3 + turn)})
                await self.settled(told["run_id"])

    async def trials(self, definition: dict[str, Any]) -> None:
        """Work through an evaluation."""
        name = (await self.post("/api/v1/evals", definition))["eval_id"]
        async with asyncio.timeout(WAIT_S):
            while (await self.server.client.get(f"/api/v1/evals/{name}")).json()["status"] == "running":  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def rest(self) -> None:
        """Leave something in every other table."""
        await self.post("/api/v1/users", {"name": "ada", "password": "correct horse battery", "role": "operator"})
        await self.post("/api/v1/keys", {"name": "ci", "scopes": ["runs"]})
        fact = await self.post("/api/v1/memory/facts", {"text": "The office closes at 18:00."})
        await self.post(f"/api/v1/memory/facts/{fact['id']}/review", {"decision": "accept"}, 200, 409)
        due = {"name": "nightly", "cron_expression": "0 3 * * *", "task_instruction": scene("looks", 900)}
        due["agent_id"] = "engineering"
        await self.post("/api/v1/schedules", due)
        await self.post("/api/v1/schedules/nightly/fire")
        case = {"id": "one", "prompt": scene("programs", 7), "check": "test -f sum_7.py"}
        await self.trials({"name": "small", "k": 2, "packs": ["engineering"], "cases": [case]})
        await self.post("/api/v1/nodes/invites", {}, 201)


async def play(fabric: Fabric) -> None:
    """Fill the store; the server is killed once in the middle of four runs."""
    async with serving(fabric) as server:
        recorder = Recorder(server)
        started = [await recorder.post("/runs", {"prompt": scene("slow", n), "pack": "engineering"}) for n in range(4)]
        await asyncio.sleep(1.5)
        await server.kill()
    async with serving(fabric) as server:
        recorder = Recorder(server)
        for each in started:
            await recorder.settled(each["run_id"])
        counts = {"programs": 30, "tests": 12, "looks": 20, "mends": 16, "stumbles": 9, "refused": 4, "endless": 6}
        counts |= {"garbage": 6, "long": 1}
        few = {"max_steps": 4}
        async with asyncio.TaskGroup() as group:
            for name, count in counts.items():
                for n in range(1, count + 1):
                    group.create_task(recorder.run(name, n, **(few if name == "endless" else {})))
            for n in range(4):
                more = {"pack": "engineering,sysadmin", "task_force_mode": ("parallel", "sequential")[n % 2]}
                group.create_task(recorder.run("looks", 50 + n, **more))
            for n in range(28):
                group.create_task(recorder.push(n))
            for name in WORKFLOWS:
                for n in range(1, 6):
                    group.create_task(recorder.workflow(name, n))
            for n in range(10):
                group.create_task(recorder.session(n))
        await recorder.rest()
        await server.until_settled()
        await server.stop()


@asynccontextmanager
async def recorded(home: Path) -> AsyncIterator[Fabric]:
    """Give a folder in which everything has happened, with the model that played it."""
    (home / "workflow-definitions").mkdir(parents=True)
    for name, text in WORKFLOWS.items():
        (home / "workflow-definitions" / f"{name}.yaml").write_text(text.lstrip())
    async with ScriptedModel(answer) as model:
        fabric = Fabric(home, settings(model.base_url, encryption="off")).by_us()
        await play(fabric)
        yield fabric


async def record(target: Path) -> int:
    """Write the three files and return how many runs they hold."""
    with tempfile.TemporaryDirectory() as work:
        home = Path(work) / "home"
        async with recorded(home) as fabric:
            async with local_fabric(home, fabric.configured) as local:
                said = await describe(local)
            backup = await fabric("db", "backup", str(target / BACKUP))
            assert backup.code == 0, backup.err
            with run_cluster() as cluster:
                url = cluster.create_database()
                there = replace(fabric, environment={"FABRIC_STORE__URL": url})
                made = await there("db", "migrate")
                assert made.code == 0, made.err
                copied = await there("db", "copy", "--from", str(fabric.root))
                assert copied.code == 0, copied.err
                await asyncio.to_thread(dump_database, cluster, url, target / DUMP)
        (target / EXPECTED).write_bytes(lzma.compress(json.dumps(said, indent=1, sort_keys=True).encode()))
    return len(said)


def dump_database(cluster: Cluster, url: str, target: Path) -> None:
    """Write a database as the statements that make it anew."""
    dump = subprocess.run([cluster.programs / "pg_dump", "--no-owner", url], check=True, capture_output=True)
    # An older psql does not know these; they guard against a hostile server, and this one is ours.
    lines = [
        line for line in dump.stdout.splitlines(keepends=True) if not line.startswith((b"\\restrict", b"\\unrestrict"))
    ]
    target.write_bytes(lzma.compress(b"".join(lines)))


def main() -> None:
    """Record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{asyncio.run(record(folder))} runs in {folder}")


if __name__ == "__main__":
    main()
