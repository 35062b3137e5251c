"""Runs whose commands write down when they were at work, and what must be true of it in the end."""

import hashlib
import itertools
import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from agent_fabric.infrastructure.persistence.runs.event_rows import chain_hash
from agent_fabric.testing.scripted_model import Call, Finish, Script, Slow

TICK_S = 0.05
STEPS = (4, 10, 3, 60, 3, 8)
"""How often the command of each step writes; one of them lasts as long as a lease."""
_COMMAND = (
    "t=$EPOCHREALTIME-$RANDOM$RANDOM; n=0; while [ $n -lt {ticks} ]; do n=$((n+1));"
    ' echo "{step} $t $EPOCHREALTIME" >> witness; sleep {tick_s}; done'
)


def script() -> Script:
    """Return what the model says: commands that write, in between a tool that works on files."""
    turns: list[Any] = []
    for step, ticks in enumerate(STEPS):
        command = _COMMAND.format(step=step, ticks=ticks, tick_s=TICK_S)
        turns += [
            Slow(Call("shell", {"command": command}), 0.05),
            Call("write_file", {"path": f"file_{step}.txt", "content": f"{step}\n"}),
        ]
    return Script(turns=(*turns, Finish(summary="All steps are done.")))


class Effect(NamedTuple):
    """One time that a command was at work."""

    step: int
    first: float
    last: float
    ticks: int


@dataclass
class Findings:
    """What the logs and the witnesses tell."""

    runs: int = 0
    steps: int = 0
    takeovers: int = 0
    handovers: int = 0
    in_doubt: int = 0
    wrong: list[str] = field(default_factory=list)
    """What must not be."""


def effects(witness: Path) -> list[Effect]:
    """Return who was at work when, by the time of their beginning."""
    seen = defaultdict[tuple[int, str], list[float]](list)
    for line in witness.read_text().splitlines() if witness.exists() else ():
        step, token, at = line.split()
        seen[int(step), token].append(float(at))
    return sorted((Effect(step, min(at), max(at), len(at)) for (step, _), at in seen.items()), key=lambda each: each[1])


def examine(database_url: str, runs_folder: Path) -> Findings:
    """Look at every run: its chain, its status, and whether log and witness agree."""
    findings = Findings()
    with psycopg.connect(database_url) as connection:
        for number, run_id, status in connection.execute("SELECT number, run_id, status FROM runs").fetchall():
            rows = connection.execute(
                "SELECT seq, ts, kind, version, lane, step, payload, hash FROM events WHERE run = %s ORDER BY seq",
                (number,),
            ).fetchall()
            findings.runs += 1
            if status != "completed":
                findings.wrong.append(f"{run_id}: lost, it is {status}")
            findings.wrong += [f"{run_id}: {each}" for each in _chain_faults(run_id, rows)]
            _compare(run_id, rows, effects(runs_folder / run_id / "workspace" / "witness"), findings)
    return findings


def _chain_faults(run_id: str, rows: list[Any]) -> list[str]:
    head = hashlib.sha256(run_id.encode()).digest()
    for expected, (seq, ts, kind, version, lane, step, payload, stored) in enumerate(rows):
        head = chain_hash(head, seq, ts, kind, version, lane, step, bytes(payload))
        if seq != expected or head != bytes(stored):
            return [f"the chain is broken at event {seq}"]
    return []


def _compare(run_id: str, rows: list[Any], seen: list[Effect], findings: Findings) -> None:
    calls: dict[str, int] = {}
    ended: dict[str, str] = {}
    for _, _, kind, _, _, _, payload, _ in rows:
        told = json.loads(bytes(payload))
        if kind == "run_resumed":
            findings.handovers += bool(told.get("handed_over"))
            findings.takeovers += not told.get("handed_over")
        elif kind == "tool_call" and told["tool"] == "shell":
            step = next(n for n, ticks in enumerate(STEPS) if _COMMAND_OF[n] == told["args"]["command"])
            calls[told["call_id"]] = step
        elif kind in {"tool_result", "tool_error"} and told.get("call_id") in calls:
            if told["call_id"] in ended:
                findings.wrong.append(f"{run_id}: call {told['call_id']} has two results")
            ended[told["call_id"]] = str(told.get("error_type", "")) if kind == "tool_error" else ""
    for call_id, step in calls.items():
        findings.steps += 1
        here = [each for each in seen if each.step == step]
        end = ended.get(call_id)
        findings.in_doubt += end == "InDoubt"
        if end is None:
            findings.wrong.append(f"{run_id}: nothing is said about the end of step {step}")
        elif end and end != "InDoubt":
            findings.wrong.append(f"{run_id}: step {step} ended with {end}")
        if len(here) > 1:
            findings.wrong.append(f"{run_id}: step {step} was done {len(here)} times")
        if end == "" and sum(each.ticks for each in here) != STEPS[step]:
            findings.wrong.append(f"{run_id}: step {step} is finished in the log, and not in the world")
    for one, other in itertools.pairwise(seen):
        if one.last >= other.first:
            findings.wrong.append(f"{run_id}: steps {one.step} and {other.step} were at work at the same time")


_COMMAND_OF = [_COMMAND.format(step=step, ticks=ticks, tick_s=TICK_S) for step, ticks in enumerate(STEPS)]
