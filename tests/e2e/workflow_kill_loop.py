"""Kills real `fabric workflow run` and `fabric resume` processes again and again, and checks what a witness saw.

    FABRIC_TEST_PROCESSES=fresh PYTHONPATH=tests python tests/e2e/workflow_kill_loop.py --kills 300

One workflow of forty steps: commands, some of them tried several times, a parallel group, a loop, a branch, a wait, a
workflow that does a step's work, and a person's approval. Each command leaves one line in a file beside the store: the
witness. A process is killed with SIGKILL when so many more events have become durable, alone or with all that it has
started, or while it still starts. Then the run is resumed, until it has ended. Where the program asks what became of a
step, the answer is looked up with the witness.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from agent_fabric.application.ports.approvals import Answer, ApprovalCard
from agent_fabric.domain.approvals.answers import Decision, Question
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.approvals.questions import SqlApprovalRepository
from agent_fabric.infrastructure.persistence.store import Store
from e2e.fabric_process import running
from e2e.forked_process import AnyProcess, start_forked

PATIENCE_S = 60.0
PAUSE_S = 4.0
"""How long the step `pause` waits."""
LATE_S = 3.0
"""So long after its moment a timer may be noticed on a busy machine; less than it would take to start it anew."""
MAX_ATTEMPTS = 8
WAITS_FOR_SOMEONE = 3


@dataclass
class Findings:
    """What a loop saw."""

    kills: int = 0
    runs: int = 0
    asked: int = 0
    """Steps whose fate a person had to tell."""
    done: int = 0
    """Of these, how many had happened."""
    ran_again: int = 0
    """Idempotent steps that were under way and simply ran again."""
    retries: int = 0
    repeated: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    resume_s: list[float] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        return [*self.repeated, *self.lost, *self.wrong]

    def text(self) -> str:
        p95 = statistics.quantiles(self.resume_s, n=20)[-1] if len(self.resume_s) > 1 else 0.0
        return (
            f"{self.kills} kills over {self.runs} workflows: {len(self.repeated)} finished steps repeated, "
            f"{len(self.lost)} lost, {len(self.wrong)} otherwise wrong; {self.asked} in doubt, {self.done} of which "
            f"had happened, {self.ran_again} idempotent ones ran again, {self.retries} retries; resume p95 {p95:.2f} s"
        )


class Happened(NamedTuple):
    """An event as it stands in the store."""

    seq: int
    ts: float
    kind: str
    lane: str
    payload: dict[str, Any]


# --- the workflows


def command(step: str, *after: str, idempotent: bool = False, lane: str = "", then: str = "", **more: Any) -> Any:
    """Return a step that leaves a line with the witness; some time passes before and after."""
    line = f"{lane or step} $(cat /proc/sys/kernel/random/uuid)"
    script = f'sleep 0.02; echo "{line}" >> "$1"; sleep 0.08; {then or "echo done"}'
    argv = ["sh", "-c", script, "{{ inputs.mark }}", "{{ inputs.witness }}", *(["{{ index }}"] if "$2" in lane else [])]
    declared = {"id": step, "action": "run-command", "command": argv, "depends_on": list(after), **more}
    return {**declared, "idempotent": True} if idempotent else declared


def _flaky(step: str, *after: str) -> Any:
    """Return a step that has to be tried until it has left five lines."""
    return command(
        step,
        *after,
        idempotent=True,
        then=f'test "$(grep -c "^{step} " "$1")" -ge 5',
        retry={"max_attempts": MAX_ATTEMPTS, "delay_seconds": 0.2, "backoff": 1},
    )


GIVEN = {"witness": {"type": "string", "required": True}, "mark": {"type": "string", "required": True}}

INNER: Mapping[str, Any] = {
    "name": "inner",
    "version": "1.0.0",
    "inputs": {**GIVEN, "n": {"type": "integer", "required": True}},
    "outputs": {"double": {"type": "integer", "value": "{{ sum.n }}"}},
    "steps": [
        command("in1"),
        command("in2", "in1", idempotent=True),
        {"id": "in_pause", "action": "wait", "inputs": {"seconds": 1}, "depends_on": ["in1"]},
        command("in3", "in2", "in_pause"),
        _flaky("in_flaky", "in1"),
        {"id": "sum", "action": "transform", "inputs": {"n": "{{ inputs.n * 2 }}"}, "depends_on": ["in3", "in_flaky"]},
    ],
}


def _outer() -> dict[str, Any]:
    fan = [command(f"fan{n}", idempotent=n % 2 == 0) for n in range(5)]
    body = [command("one", lane="each[$2].one"), command("two", lane="each[$2].two", idempotent=True)]
    for step in body:
        del step["depends_on"]
    yes = [command("yes1"), command("yes2", idempotent=True), command("yes3")]
    for step in yes:
        del step["depends_on"]
    no = command("no1")
    del no["depends_on"]
    steps: list[Any] = [
        command("a1"),
        command("a2", "a1", idempotent=True),
        command("a3", "a2"),
        {"id": "fan", "action": "parallel-group", "steps": fan, "depends_on": ["a1"]},
        {
            "id": "each",
            "action": "for-each",
            "inputs": {"items": "{{ inputs.items }}"},
            "steps": body,
            "depends_on": ["a2"],
        },
        {
            "id": "choice",
            "action": "conditional",
            "condition": "inputs.items | length > 2",
            "then": yes,
            "else": [no],
            "depends_on": ["a3"],
        },
        _flaky("flaky1"),
        _flaky("flaky2", "a1"),
        {"id": "pause", "action": "wait", "inputs": {"seconds": PAUSE_S}, "depends_on": ["a1"]},
        command("after_pause", "pause"),
        {
            "id": "call",
            "action": "workflow",
            "workflow": "inner",
            "inputs": {"n": 21, "witness": "{{ inputs.witness }}", "mark": "{{ inputs.mark }}"},
            "depends_on": ["a2"],
        },
        {"id": "use", "action": "transform", "inputs": {"n": "{{ call.double }}"}, "depends_on": ["call"]},
        {"id": "ok", "action": "approve", "inputs": {"message": "Go on?"}, "depends_on": ["a2"]},
        command("after_ok", "ok"),
        *(command(f"b{n}", *([f"b{n - 1}"] if n else ["a1"]), idempotent=n % 3 == 1) for n in range(10)),
        *(command(f"c{n}", *([f"c{n - 1}"] if n else ["a3"]), idempotent=n % 3 == 2) for n in range(4)),
        {
            "id": "end",
            "action": "validate",
            "inputs": {"data": "{{ use.n }}", "rules": ["data == 42"]},
            "depends_on": ["use", "after_ok", "after_pause", "fan", "each", "choice", "flaky1", "flaky2", "b9", "c3"],
        },
    ]
    return {
        "name": "outer",
        "version": "1.0.0",
        "inputs": {**GIVEN, "items": {"type": "array", "required": True}},
        "execution": {"parallel_limit": 4},
        "steps": steps,
    }


OUTER: Mapping[str, Any] = _outer()
ITEMS = 4


def _all_steps(steps: list[Any]) -> Iterator[Any]:
    for step in steps:
        yield step
        for inside in ("steps", "then", "else"):
            yield from _all_steps(step.get(inside, []))


STEPS = len(list(_all_steps(OUTER["steps"])))


def _lanes(workflow: Mapping[str, Any]) -> dict[str, Any]:
    """Return the commands that must run, by the name that the witness knows them by."""
    found = {}
    for step in _all_steps(workflow["steps"]):
        if step["action"] == "run-command" and step["id"] != "no1":
            names = [f"each[{n}].{step['id']}" for n in range(ITEMS)] if step["id"] in ("one", "two") else [step["id"]]
            found.update(dict.fromkeys(names, step))
    return found


LANES = {**_lanes(OUTER), **_lanes(INNER)}


# --- what is read from outside


@dataclass(frozen=True)
class Files:
    """A fabric folder with workflows; each run's witness is a file in its workspace."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / ".fabric"

    @property
    def database(self) -> Path:
        return self.root / "fabric.db"

    def write(self, *workflows: Mapping[str, Any]) -> None:
        definitions = self.folder / "workflow-definitions"
        definitions.mkdir(parents=True)
        for workflow in workflows:
            (definitions / f"{workflow['name']}.json").write_text(json.dumps(workflow))

    @contextmanager
    def opened(self) -> Iterator[apsw.Connection]:
        connection = apsw.Connection(str(self.database), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(10_000)
        try:
            yield connection
        finally:
            connection.close()

    def runs(self, *, whole: bool = True) -> list[str]:
        """Return the runs that nobody else's step has started, or all."""
        if not self.database.exists():
            return []
        with suppress(apsw.SQLError), self.opened() as connection:  # killed before the tables were made
            query = f"SELECT run_id FROM runs {'WHERE parent IS NULL' if whole else ''} ORDER BY number"
            return [str(row[0]) for row in connection.execute(query)]
        return []

    def newest_position(self) -> int:
        if not self.database.exists():
            return 0
        with suppress(apsw.SQLError, apsw.BusyError), self.opened() as connection:
            ((newest,),) = connection.execute("SELECT coalesce(max(position), 0) FROM events").fetchall()
            return int(str(newest))
        return 0

    def events(self, run_id: str) -> list[Happened]:
        with self.opened() as connection:
            query = (
                "SELECT seq, ts, kind, coalesce(lane, ''), payload FROM events JOIN runs ON runs.number = events.run "
                "WHERE run_id = ? ORDER BY seq"
            )
            rows: Any = connection.execute(query, (run_id,)).fetchall()
            return [Happened(seq, ts, kind, lane, json.loads(payload)) for seq, ts, kind, lane, payload in rows]

    def status(self, run_id: str) -> str:
        with self.opened() as connection:
            ((status,),) = connection.execute("SELECT status FROM runs WHERE run_id = ?", (run_id,)).fetchall()
            return str(status)

    def below(self, run_id: str) -> list[str]:
        with self.opened() as connection:
            query = "SELECT run_id FROM runs WHERE parent = (SELECT number FROM runs WHERE run_id = ?)"
            return [str(row[0]) for row in connection.execute(query, (run_id,))]

    def workspace(self, run_id: str) -> Path:
        return self.root / "runs" / run_id / "workspace"

    def seen(self, run_id: str) -> list[str]:
        """Return the steps that have left a line with the witness, in order."""
        path = self.workspace(run_id) / "witness"
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


# --- one run


class _Life:
    """One run, from its start to its end, through as many processes as it takes."""

    def __init__(self, files: Files, rng: random.Random, findings: Findings, kills: int) -> None:
        self.files = files
        self.rng = rng
        self.findings = findings
        self.kills = kills
        self.run_id = ""
        self.mark = f"mark-{uuid.uuid4().hex}"
        self.before = set(files.runs())
        self.finished: dict[str, int] = {}
        """How often the witness had seen a step when its end was found durable."""

    def live(self) -> None:
        for _ in range(400):
            code = self._one_process()
            if not self.run_id:
                self.run_id = next((each for each in self.files.runs() if each not in self.before), "")
                if not self.run_id:
                    continue
            self._remember_finished()
            if code == 0:
                break
            if code not in (None, WAITS_FOR_SOMEONE):
                self.findings.lost.append(f"{self.run_id}: exit {code}")
                return
            if code == WAITS_FOR_SOMEONE or self.rng.random() < 0.3:
                self._answer(everything=code == WAITS_FOR_SOMEONE)
        self.findings.runs += 1
        _Judge(self.files, self.run_id, self.findings, self.finished).judge()

    def _one_process(self) -> int | None:
        """Return the exit code of a process; None when it was killed."""
        given = {"witness": "witness", "mark": self.mark, "items": list(range(ITEMS))}
        command = ["resume", self.run_id] if self.run_id else ["workflow", "run", "outer"]
        if not self.run_id:
            (self.files.folder / "inputs.json").write_text(json.dumps(given))
            command += ["--inputs", "inputs.json"]
        started = time.time()
        process = start(self.files, *command)
        mortal = self.findings.kills < self.kills
        if mortal:
            self._let_live(process)
        else:
            process.wait(PATIENCE_S)
        killed = process.poll() is None
        if killed:
            if self.rng.random() < 0.5:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            self.findings.kills += 1
        process.wait(PATIENCE_S)
        if killed:
            self._require_no_survivors()
        if self.run_id:
            self._note_resumption(started)
        if not killed and process.returncode not in (0, WAITS_FOR_SOMEONE):
            assert process.stderr is not None
            self.findings.lost.append(process.stderr.read().decode()[-2000:])
        assert process.stderr is not None
        process.stderr.close()
        return None if killed else process.returncode

    def _let_live(self, process: AnyProcess) -> None:
        """Wait until so many more events are durable; sometimes only for a part of the start."""
        if self.rng.random() < 0.07:
            with suppress(subprocess.TimeoutExpired):
                process.wait(self.rng.uniform(0, 0.5))
            return
        enough = self.files.newest_position() + self.rng.choice((1, 2, 3, 4, 5, 6, 8, 11, 15, 20))
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None and self.files.newest_position() < enough and time.monotonic() < deadline:
            time.sleep(0.003)
        with suppress(subprocess.TimeoutExpired):
            process.wait(self.rng.choice((0, 0, 0.02, 0.05, 0.1)))  # commands are at any point of their work

    def _require_no_survivors(self) -> None:
        deadline = time.monotonic() + 5
        while survivors := running(self.mark):
            if time.monotonic() > deadline:
                self.findings.wrong.append(f"{self.run_id}: {len(survivors)} commands outlive their program")
                return
            time.sleep(0.01)

    def _note_resumption(self, started: float) -> None:
        resumed = [event.ts for event in self.files.events(self.run_id) if event.kind == "run_resumed"]
        if resumed and resumed[-1] > started:
            self.findings.resume_s.append(resumed[-1] - started)

    def _remember_finished(self) -> None:
        seen = Counter(self.files.seen(self.run_id))
        for run_id in (self.run_id, *self.files.below(self.run_id)):
            for event in self.files.events(run_id):
                if event.kind == "step_finished" and event.lane in LANES:
                    self.finished.setdefault(event.lane, seen[event.lane])

    def _answer(self, *, everything: bool) -> None:
        """Tell what became of steps, by what the witness has seen; agree to the rest when nothing else is left."""
        cards = asyncio.run(answered(self.files, self._what_happened))
        if everything and cards and all(card.question is Question.ANSWER for card in cards):
            (card,) = cards
            done = start(self.files, "approvals", "approve", card.approval_id)
            if done.wait(PATIENCE_S) != 0:
                self.findings.wrong.append(f"{self.run_id}: the approval cannot be answered")
            assert done.stderr is not None
            done.stderr.close()

    def _what_happened(self, card: ApprovalCard) -> Decision | None:
        if card.question is not Question.DID_IT_HAPPEN:
            return None
        lane = card.call_id.rpartition("#")[0]
        happened = lane in self.files.seen(self.run_id)
        self.findings.asked += 1
        self.findings.done += happened
        if LANES[lane].get("idempotent"):
            self.findings.wrong.append(f"{self.run_id}: asks about {lane}, which may simply run again")
        return Decision.DONE if happened else Decision.APPROVE


async def answered(files: Files, decision: Any) -> list[ApprovalCard]:
    """Answer the questions for which there is a decision; return all that were asked."""
    store = Store(files.database)
    try:
        book = SqlApprovalRepository(store, SystemClock())
        cards = list(await book.list())
        for card in cards:
            decided = decision(card)
            if decided is not None:
                await book.answer(card.approval_id, Answer(decision=decided, by="the witness", via="test"))
        return cards
    finally:
        store.close()


def start(files: Files, *command: str) -> AnyProcess:
    """Start `fabric` as the head of a process group, with nothing of ours in its environment."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "PYTHONPATH"}}
    return start_forked(
        [*command, "--workspace", str(files.root)],
        cwd=files.folder,
        env={**kept, "HOME": str(files.folder), "TMPDIR": str(files.folder)},
        new_session=True,
    )


# --- the judgement


class _Judge:
    """Compares what the log says with what the witness has seen."""

    def __init__(self, files: Files, run_id: str, findings: Findings, finished: Mapping[str, int]) -> None:
        self.files = files
        self.run_id = run_id
        self.findings = findings
        self.finished = finished
        self.order = files.seen(run_id)
        self.seen = Counter(self.order)
        self.children = files.below(run_id)
        self.events = files.events(run_id)
        self.of_lane: dict[str, list[Happened]] = defaultdict(list)
        for each in (run_id, *self.children):
            for event in files.events(each):
                self.of_lane[event.lane].append(event)

    def judge(self) -> None:
        if [self.files.status(each) for each in (self.run_id, *self.children)] != ["completed", "completed"]:
            self.findings.lost.append(f"{self.run_id}: it or the run that works for it has not completed")
            return
        for lane, step in LANES.items():
            self._command(lane, step)
        if set(self.seen) - set(LANES):
            self.findings.wrong.append(f"{self.run_id}: ran without being asked to: {set(self.seen) - set(LANES)}")
        for workflow in (OUTER, INNER):
            self._order(workflow)
        self._result()
        self._wait("pause", PAUSE_S)
        self._wait("in_pause", 1.0)
        self._approval()

    def _command(self, lane: str, step: Any) -> None:
        events = self.of_lane[lane]
        calls = [event for event in events if event.kind == "tool_call"]
        results = [event for event in events if event.kind in ("tool_result", "tool_error")]
        ends = [event.seq for event in events if event.kind == "step_finished"]
        count, name = self.seen[lane], f"{self.run_id} {lane}"
        if len(ends) != 1 or any(call.seq > ends[0] for call in calls):
            self.findings.repeated.append(f"{name}: ended {len(ends)} times, or was called behind its end")
        if count != self.finished.get(lane, count):
            self.findings.repeated.append(f"{name}: seen {self.finished[lane]} times at its end, {count} times now")
        if count > len(calls):
            self.findings.repeated.append(f"{name}: called {len(calls)} times, seen {count} times")
        if count < max(len(results), 1):
            self.findings.lost.append(f"{name}: {len(results)} results, seen {count} times")
        if not step.get("idempotent") and count != 1:
            self.findings.repeated.append(f"{name}: seen {count} times")
        attempts = [event.payload["attempt"] for event in events if event.kind == "step_started"]
        retried = [event.payload["attempt"] for event in events if event.kind == "step_retrying"]
        if attempts != list(range(1, len(attempts) + 1)) or retried != attempts[:-1] or len(attempts) > MAX_ATTEMPTS:
            self.findings.wrong.append(f"{name}: attempts {attempts}, retried {retried}")
        self.findings.retries += len(retried)
        if step.get("idempotent"):
            self.findings.ran_again += len(calls) - len(attempts)

    def _order(self, workflow: Mapping[str, Any]) -> None:
        for step in _all_steps(workflow["steps"]):
            for before in step.get("depends_on", ()):
                if self.seen[step["id"]] and self.seen[before]:
                    last = len(self.order) - 1 - self.order[::-1].index(before)
                    if last > self.order.index(step["id"]):
                        self.findings.wrong.append(f"{self.run_id}: {step['id']} ran before {before} had ended")

    def _result(self) -> None:
        payload = self.events[-1].payload["payload"]
        outputs = payload["outputs"]
        ends = {each["step_id"]: each["status"] for each in payload["step_results"]}
        wanted = {step["id"] for step in _all_steps(OUTER["steps"])} - {"no1", "one", "two"}
        right = (
            payload["status"] == "success"
            and all(ends.get(step) == "success" for step in wanted)
            and wanted <= set(outputs)
            and outputs["use"] == {"n": 42}
            and outputs["each"]["count"] == ITEMS
            and all(set(each) == {"one", "two"} for each in outputs["each"]["results"])
            and outputs["choice"]["branch"] == "then"
            and outputs["ok"]["approved"] is True
            and set(outputs["fan"]) == {f"fan{n}" for n in range(5)}
        )
        if not right:
            self.findings.lost.append(f"{self.run_id}: the result is not what it should be: {json.dumps(payload)}")

    def _wait(self, lane: str, seconds: float) -> None:
        """The clock runs from the moment at which the wait began, whoever drives the run."""
        waits = [event for event in self.of_lane[lane] if event.kind == "step_waiting"]
        fired = [event for event in self.of_lane[lane] if event.kind == "timer_fired"]
        if len(waits) != 1 or len(fired) != 1:
            self.findings.wrong.append(f"{self.run_id}: {lane} waited {len(waits)} times, fired {len(fired)} times")
            return
        due = waits[0].ts + seconds
        resumed = [event.ts for event in self.of_lane[""] if event.kind == "run_resumed" and event.ts < fired[0].ts]
        late = fired[0].ts - max([due, *resumed])
        if fired[0].ts < due or late > LATE_S:
            self.findings.wrong.append(f"{self.run_id}: {lane} fired {fired[0].ts - due:.2f} s after its moment")

    def _approval(self) -> None:
        asked = [event for event in self.of_lane["ok"] if event.kind == "approval_requested"]
        decided = [event for event in self.of_lane["ok"] if event.kind == "approval_decided"]
        if len(asked) != 1 or len(decided) != 1:
            self.findings.wrong.append(f"{self.run_id}: asked {len(asked)} times, answered {len(decided)} times")


def loop(folder: Path, kills: int, seed: int) -> Findings:
    """Run and kill until enough processes have died; every run is brought to its end."""
    files = Files(folder)
    files.write(OUTER, INNER)
    rng, findings = random.Random(seed), Findings()
    while findings.kills < kills and not findings.problems:
        _Life(files, rng, findings, kills).live()
    with files.opened() as connection:
        ((sound,),) = connection.execute("PRAGMA integrity_check").fetchall()
        assert sound == "ok", sound
    return findings


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"seed {arguments.seed}, {STEPS} steps", flush=True)
        findings = loop(Path(folder) / "project", arguments.kills, arguments.seed)
        print(findings.text())
        print(*findings.problems, sep="\n")
        sys.exit(bool(findings.problems))


if __name__ == "__main__":
    main()
