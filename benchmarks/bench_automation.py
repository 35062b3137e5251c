"""What automation costs: 10,000 schedules due at once, steady load, idling, `why`, 100,000 watched files.

python benchmarks/bench_automation.py
"""

import asyncio
import os
import random
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_fabric.application.automation.fire_schedules import FireSchedules
from agent_fabric.application.automation.watch_sensors import ArmedSensor, WatchSensors
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.bootstrap.automation import explain_schedule
from agent_fabric.domain.automation.schedule import Rule, Schedule
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Budget, Profile, Task
from agent_fabric.infrastructure.automation.cronsim_walls import read_cron
from agent_fabric.infrastructure.automation.sensors import FileChangeSensor
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.cluster.bus.in_process import InProcessBus
from agent_fabric.infrastructure.observability.operations_log import operations_log
from agent_fabric.infrastructure.persistence.automation.schedules import FIRINGS
from agent_fabric.infrastructure.persistence.storage import open_storage

MANY = 10_000
STEADY_S = 20.0
IDLE_S = 10.0
ROWS = int(os.environ.get("BENCH_ROWS", "1000000"))
FILES = int(os.environ.get("BENCH_FILES", "100000"))


def first_event(run_id: RunId, task: Task) -> Event:
    body = RunCreated(
        prompt=task.prompt,
        specialist_id=None,
        model_key=task.model_key,
        network_allowed=True,
        budget=task.budget,
        profile=task.profile,
        workspace=f"/nowhere/{run_id}",
        sandbox="none",
        policy_version="1",
        fabric_version="0",
    )
    return Event(0, time.time(), None, "", body)


async def make_task(schedule: Schedule) -> Task:
    return Task(prompt=schedule.task_instruction, model_key="fast", budget=Budget.of(Profile.TASK))


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root, clock = Path(folder), SystemClock()
        storage = open_storage(root, clock=clock, ids=RandomIds(), run_dir=lambda run_id: str(root / run_id))
        fire = FireSchedules(
            store=storage.automation,
            read_cron=read_cron,
            make_task=make_task,
            first_event=first_event,
            begin=lambda _: None,
            cancel_run=CancelRun(storage.runs, clock),
            clock=clock,
            bus=InProcessBus(),
            log=operations_log("bench"),
            server="bench",
        )
        now = clock.now()
        add = storage.automation.schedules.add
        for start in range(0, MANY, 500):
            await asyncio.gather(
                *(
                    add(
                        Schedule(
                            id=f"s{nth:06}",
                            name=f"s{nth:06}",
                            task_instruction="do it",
                            rule=Rule(every_s=86_400.0, anchor=now),
                            created_at=now,
                            next_at=now,
                        ),
                        by="bench",
                    )
                    for nth in range(start, start + 500)
                )
            )
        began, used = time.perf_counter(), cpu_s()
        fired = len(await fire.tick())
        took = time.perf_counter() - began
        each = (cpu_s() - used) / fired * 1000
        print(f"{fired} schedules due at once: {took:.2f} s, {each:.2f} ms CPU each (≤ 10 s)")
        await steady(fire)
        began, used = time.perf_counter(), cpu_s()
        task = asyncio.create_task(fire())
        await asyncio.sleep(IDLE_S)
        task.cancel()
        print(f"idle: {(cpu_s() - used) / (time.perf_counter() - began) * 100:.2f} % of a core (≤ 1 %)")
        await ask_why(storage)
        storage.close()
    await look_at_files()


async def steady(fire: FireSchedules) -> None:
    """Measure how late 100 schedules fire that are due every second, spread over it."""
    store = fire.store
    now = time.time()
    for nth in range(100):
        anchor = now + nth / 100
        rule = Rule(every_s=1.0, anchor=anchor)
        schedule = Schedule(
            id=f"t{nth}", name=f"t{nth}", task_instruction="do it", rule=rule, created_at=now, next_at=anchor + 1
        )
        await store.schedules.add(replace(schedule), by="bench")
    task = asyncio.create_task(fire())
    await asyncio.sleep(STEADY_S)
    task.cancel()
    late: list[float] = []
    for nth in range(100):
        late += [each.late_s for each in await store.history.firings(f"t{nth}", limit=100) if each.count == 1]
    late.sort()
    middle, most = late[len(late) // 2], late[int(len(late) * 0.99)]
    print(f"steady, 100 a second: p50 {middle:.3f} s, p99 {most:.3f} s late (≤ 1 s)")
    for nth in range(100):
        await store.schedules.remove(await store.schedules.find(f"t{nth}"), by="bench", now=time.time())


async def ask_why(storage: Any) -> None:
    """Measure how long explanations take: a million firings and half a million processes, such as a year of ticks."""
    now, name, tables = float(int(time.time())), "history", storage._store  # noqa: SLF001 - rows of a whole year
    rule = Rule(every_s=60.0, anchor=now - ROWS * 60)
    schedule = Schedule(
        id=name, name=name, task_instruction="do it", rule=rule, created_at=rule.anchor, next_at=now + 60
    )
    await storage.automation.schedules.add(schedule, by="bench")
    for start in range(0, ROWS, 50_000):
        instants = [rule.anchor + nth * 60 for nth in range(start, min(start + 50_000, ROWS))]
        rows = [(name, at, at, 1, "fired", "", at, f"run-{at:.0f}", "bench", "", 1) for at in instants]
        marks = ", ".join("?" * 11)
        query = f"INSERT INTO firings ({FIRINGS.names}) VALUES ({marks})"
        await tables.write(lambda connection, query=query, rows=rows: connection.executemany(query, rows))
        lives = [(f"life-{at:.0f}", "tick", at, at) for at in instants[::2]]
        query = "INSERT INTO firing_processes (id, server, since, until_at) VALUES (?, ?, ?, ?)"
        await tables.write(lambda connection, query=query, rows=lives: connection.executemany(query, rows))
    explain, chance = explain_schedule(storage), random.Random(1)
    took: list[float] = []
    for _ in range(300):
        at = rule.anchor + chance.randrange(ROWS) * 60 + chance.choice((0, 30))
        began = time.perf_counter()
        await explain(name, str(at))
        took.append(time.perf_counter() - began)
    took.sort()
    print(f"why, {ROWS:,} firings: p50 {took[150] * 1000:.1f} ms, p99 {took[297] * 1000:.1f} ms (≤ 100 ms)")


async def look_at_files() -> None:
    """Measure looks of a sensor at 100,000 files: the first, one that finds nothing, one that finds changes."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for nth in range(FILES):
            if nth % 1_000 == 0:
                (root / f"d{nth // 1_000}").mkdir()
            (root / f"d{nth // 1_000}" / f"f{nth}.txt").touch()
        (root / ".fabric").mkdir()
        sensor = FileChangeSensor(root, ["**/*.txt"], settle_s=0.0)
        storage = open_storage(
            root / ".fabric", clock=SystemClock(), ids=RandomIds(), run_dir=lambda run_id: str(root / run_id)
        )
        watch = WatchSensors(
            store=storage.automation.sensors,
            task_for=no_task,
            first_event=first_event,
            begin=lambda _: None,
            bus=InProcessBus(),
            clock=SystemClock(),
        )
        armed = ArmedSensor(name="files", kind="file_change", workflow="w", sensor=sensor)
        for what in ("first", "nothing new", "nothing new again", "100 changed"):
            if what == "100 changed":
                for nth in range(100):
                    (root / "d0" / f"f{nth}.txt").write_text("x")
            used = cpu_s()
            await watch.look(armed)
            print(
                f"{FILES:,} files, {what}: {cpu_s() - used:.2f} s CPU, of which the scan {sensor.scan_s:.2f} s (≤ 1 s)"
            )
        storage.close()


async def no_task(_source: str, _workflow: str, _offered: Any) -> Task:
    return Task(prompt="do it", model_key="fast", budget=Budget.of(Profile.TASK))


if __name__ == "__main__":
    asyncio.run(main())
