"""Kills real `fabric` processes at random moments and checks what a witness saw.

    FABRIC_TEST_PROCESSES=fresh PYTHONPATH=tests python tests/e2e/kill_loop.py --kills 500

Each run is a dozen turns of shell commands that append a line to a witness file in the workspace, and of file tools.
A process is killed with SIGKILL some milliseconds after it has shown signs of life, or while it still starts; then the
run is resumed, until it completes. The witness must never see a command twice, and every recorded result must have
happened.
"""

import argparse
import hashlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.runs.event_rows import chain_hash
from agent_fabric.testing.scripted_model import Call, Finish, Script
from e2e.forked_command import passed_on
from e2e.forked_process import AnyProcess, start_forked

Row = tuple[Any, ...]
STEPS = 12
PATIENCE_S = 60.0


@dataclass
class Findings:
    """What a loop saw."""

    kills: int = 0
    runs: int = 0
    in_doubt: int = 0
    repeated: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    resume_s: list[float] = field(default_factory=list)

    def text(self) -> str:
        p95 = statistics.quantiles(self.resume_s, n=20)[-1] if len(self.resume_s) > 1 else 0.0
        return (
            f"{self.kills} kills over {self.runs} runs: {len(self.repeated)} finished steps repeated, "
            f"{len(self.lost)} lost, {self.in_doubt} calls in doubt; resume p95 {p95:.2f} s"
        )


def script() -> Script:
    """Return what the model says: mostly commands that leave a trace in the workspace, in between file tools."""
    turns = []
    for step in range(STEPS):
        if step % 4 == 3:
            turns.append(Call("write_file", {"path": f"file_{step}.txt", "content": f"step {step}\n"}))
        else:
            # The run's own id comes from the environment that every tool process gets.
            command = f'echo "$FABRIC_RUN_ID {step}" >> witness && python3 -c "pass"'
            turns.append(Call("shell", {"command": command}))
    return Script(turns=(*turns, Finish(summary="All steps are done.")))


def loop(folder: Path, kills: int, seed: int) -> Findings:
    """Run and kill until enough processes have died; every run is brought to its end."""
    rng = random.Random(seed)
    root = folder / ".fabric"
    (folder / "script.json").write_text(script().to_json())
    model = subprocess.Popen(
        [sys.executable, "-m", "agent_fabric.testing.scripted_model", "--script", str(folder / "script.json")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert model.stdout is not None
    environment = {
        **passed_on(),
        "FABRIC_MODELS__QUALITY__BASE_URL": model.stdout.readline().strip(),
        "FABRIC_MODELS__QUALITY__BACKEND": "generic",
        "XDG_CONFIG_HOME": str(folder),
    }
    findings = Findings()
    try:
        while findings.kills < kills:
            _one_run(rng, root, environment, findings)
    finally:
        model.terminate()
        model.communicate()
    _check(root, findings)
    return findings


def _one_run(rng: random.Random, root: Path, environment: dict[str, str], findings: Findings) -> None:
    before = {path.name for path in (root / "runs").glob("*")} if root.exists() else set()
    run_id = ""
    for _ in range(200):
        command = ["resume", run_id] if run_id else ["run", "--pack", "engineering", "Do all steps."]
        started = time.time()
        process = start_forked([*command, "--workspace", str(root), "--json"], cwd=root.parent, env=environment)
        _let_live(rng, process, root, run_id)
        killed = process.poll() is None
        if killed:
            process.send_signal(signal.SIGKILL)
            findings.kills += 1
        process.wait(PATIENCE_S)
        assert process.stderr is not None
        process.stderr.close()
        if run_id:
            findings.resume_s += _resumed_after(root, run_id, started)
        fresh = {path.name for path in (root / "runs").glob("*")} - before if root.exists() else set()
        known = _known(root)
        run_id = run_id or next((name for name in fresh if name in known), "")
        if not killed:
            if process.returncode != 0:
                findings.lost.append(f"{run_id}: exit {process.returncode}")
            findings.runs += 1
            return
    findings.lost.append(f"{run_id}: never completed")


def _let_live(rng: random.Random, process: AnyProcess, root: Path, run_id: str) -> None:
    """Wait until the process has recorded a few events, then a little longer; sometimes not even that."""
    if rng.random() < 0.1:
        _sleep_or_end(process, rng.uniform(0, 0.6))
        return
    logs = root / "runs"
    enough = _lines(logs, run_id) + rng.randrange(1, 16)
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and _lines(logs, run_id) < enough and time.monotonic() < deadline:
        time.sleep(0.005)
    _sleep_or_end(process, rng.uniform(0, 0.06))


def _sleep_or_end(process: AnyProcess, seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _lines(logs: Path, run_id: str) -> int:
    """Count the events of a run, or while its id is unknown those of all runs."""
    pattern = f"{run_id}/runlog.jsonl" if run_id else "*/runlog.jsonl"
    return sum(path.read_bytes().count(b"\n") for path in logs.glob(pattern)) if logs.exists() else 0


def _known(root: Path) -> set[str]:
    if not (root / "fabric.db").exists():
        return set()
    connection = apsw.Connection(str(root / "fabric.db"))
    connection.set_busy_timeout(10_000)
    try:
        return {str(row[0]) for row in connection.execute("SELECT run_id FROM runs")}
    except apsw.SQLError:
        return set()  # killed before the tables were made
    finally:
        connection.close()


def _resumed_after(root: Path, run_id: str, started: float) -> list[float]:
    """Return how long after its start the newest process had taken the run over."""
    connection = apsw.Connection(str(root / "fabric.db"))
    connection.set_busy_timeout(10_000)
    query = (
        "SELECT ts FROM events JOIN runs ON runs.number = events.run "
        "WHERE run_id = ? AND kind = 'run_resumed' ORDER BY seq DESC LIMIT 1"
    )
    row = connection.execute(query, (run_id,)).fetchone()
    connection.close()
    return [row[0] - started] if row and row[0] > started else []


def _check(root: Path, findings: Findings) -> None:
    witnesses = root.glob("runs/*/workspace/witness")
    seen = Counter(line for witness in witnesses for line in witness.read_text().splitlines())
    connection = apsw.Connection(str(root / "fabric.db"))
    ((sound,),) = connection.execute("PRAGMA integrity_check").fetchall()
    assert sound == "ok", sound
    for number, run_id in connection.execute("SELECT number, run_id FROM runs").fetchall():
        assert isinstance(run_id, str)
        rows: list[Row] = connection.execute(
            "SELECT seq, ts, kind, version, lane, step, payload, hash FROM events WHERE run = ? ORDER BY seq", (number,)
        ).fetchall()
        _check_chain(RunId(run_id), rows)
        results = [row for row in rows if row[2] == "tool_result" and b'"tool":"shell"' in row[6]]
        findings.in_doubt += sum(b'"error_type":"InDoubt"' in row[6] for row in rows)
        finished = {int(str(row[5]).removeprefix("step_")) for row in results}
        for step in range(STEPS):
            count = seen[f"{run_id} {step}"]
            if count > 1:
                findings.repeated.append(f"{run_id} step {step}: {count} times")
            if step in finished and count != 1:
                findings.lost.append(f"{run_id} step {step}: recorded, but seen {count} times")
    connection.close()


def _check_chain(run_id: RunId, rows: list[Row]) -> None:
    head = hashlib.sha256(run_id.encode()).digest()
    for expected, (seq, ts, kind, version, lane, step, payload, stored) in enumerate(rows):
        assert seq == expected, f"{run_id}: a gap before event {seq}"
        head = chain_hash(head, seq, ts, kind, version, lane, step, payload)
        assert head == stored, f"{run_id}: the chain is broken at event {seq}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"seed {arguments.seed}", flush=True)
        findings = loop(Path(folder), arguments.kills, arguments.seed)
        print(findings.text())
        for problem in (*findings.repeated, *findings.lost):
            print(problem)
        sys.exit(bool(findings.repeated or findings.lost))


if __name__ == "__main__":
    main()
