"""Bad weather over a whole cluster: processes are killed and frozen, networks cut, databases restarted, by a seed.

    python tests/e2e/cluster/chaos.py --events 500 --seed 7

Meanwhile a few customers start runs at any server, over and over. When the weather is over, every run that was taken
on has to come to its end, and the witnesses in their workspaces have to agree with their logs (`witness`).
"""

import argparse
import asyncio
import math
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from cutting_proxy import Cut
from e2e.cluster.witness import Findings, examine, script
from e2e.cluster.world import Member, World, counted, world

TTL_S = 3.0
CUSTOMERS = 6
GAP_S = 1.0
"""Between two events, on average."""
CALM_S = 180.0
"""How long runs may take to come to their end once the weather is over."""
REQUEST_TIMEOUT_S = 20.0
SETTLED = frozenset({"completed", "failed", "cancelled"})


@dataclass
class Weather:
    """What happens to a world, by a seed. No two things happen to one target at the same time."""

    world: World
    rng: random.Random
    ttl_s: float
    happened: Counter[str] = field(default_factory=Counter)
    _busy: set[str] = field(default_factory=set)
    _under_way: set[asyncio.Task[None]] = field(default_factory=set)

    async def blow(self, events: int, within_s: float) -> None:
        """Let so many things happen, or as many as there is time for, and wait until all is as it was."""
        deadline = time.monotonic() + within_s
        for _ in range(events):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(self.rng.expovariate(1 / GAP_S))
            while not self._begin(*self._choose()):
                await asyncio.sleep(0.05)
        await asyncio.gather(*self._under_way)

    def _begin(self, what: str, target: str, event: Callable[[], Awaitable[None]]) -> bool:
        if target in self._busy:
            return False
        self._busy.add(target)
        self.happened[what] += 1
        task = asyncio.ensure_future(self._happen(target, event))
        self._under_way.add(task)
        return True

    async def _happen(self, target: str, event: Callable[[], Awaitable[None]]) -> None:
        try:
            await event()
        finally:
            self._busy.discard(target)

    def _choose(self) -> tuple[str, str, Callable[[], Awaitable[None]]]:
        place = self.rng.choices(("worker", "server", "postgres", "nats", "redis"), (10, 2, 3, 1, 1))[0]
        pause_s = self.rng.uniform(0.1, 2 * self.ttl_s)
        world = self.world
        match place:
            case "worker":
                member = self.rng.choice(world.workers)
                what = self.rng.choice(tuple(_TO_MEMBERS))
                return what, member.name, lambda: _TO_MEMBERS[what](member, pause_s)
            case "server":
                member = self.rng.choice(world.servers)
                what = self.rng.choice(("kills", "freezes", "late networks", "commits without an answer"))
                return f"{what}", member.name, lambda: _TO_MEMBERS[what](member, pause_s)
            case "postgres":
                how = self.rng.choice(("restarts of PostgreSQL", "crashes of PostgreSQL", "killed PostgreSQL backends"))
                return how, "postgres", lambda: self._disturb_postgres(how, pause_s / 2)
            case _:
                service = world.nats if place == "nats" else world.redis
                hangs = self.rng.random() < 0.5
                how = f"{'hangs' if hangs else 'kills'} of {place.upper() if place == 'nats' else 'Redis'}"
                return how, place, lambda: _disturb(service, pause_s, hangs=hangs)

    async def _disturb_postgres(self, how: str, pause_s: float) -> None:
        postgres = self.world.postgres
        match how:
            case "restarts of PostgreSQL":
                await asyncio.to_thread(postgres.stop)
            case "crashes of PostgreSQL":
                await asyncio.to_thread(postgres.crash)
            case _:
                query = (
                    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
                )
                rows = await asyncio.to_thread(postgres.execute, query)
                if rows:
                    postgres.kill_connection(self.rng.choice(rows)[0])
                return
        await asyncio.sleep(pause_s)
        await asyncio.to_thread(postgres.start)


async def _kill(member: Member, pause_s: float) -> None:
    await member.end(signal.SIGKILL)
    await asyncio.sleep(pause_s / 3)
    await member.start()


async def _terminate(member: Member, pause_s: float) -> None:
    await member.end(signal.SIGTERM)
    await asyncio.sleep(pause_s / 3)
    await member.start()


async def _freeze(member: Member, pause_s: float) -> None:
    member.send(signal.SIGSTOP)
    await asyncio.sleep(pause_s)
    member.send(signal.SIGCONT)


async def _cut(member: Member, pause_s: float) -> None:
    member.way.lost.set()
    await asyncio.sleep(pause_s)
    member.way.sever()  # what was lost on the way is lost
    member.way.lost.clear()


async def _delay(member: Member, pause_s: float) -> None:
    member.way.flowing.clear()
    await asyncio.sleep(pause_s)
    member.way.flowing.set()


async def _sever(member: Member, _: float) -> None:
    member.way.sever()


async def _lose_commit(member: Member, pause_s: float) -> None:
    member.way.cuts.append(Cut.BEFORE if int(1_000 * pause_s) % 2 else Cut.AFTER)


_TO_MEMBERS: dict[str, Callable[[Member, float], Awaitable[None]]] = {
    "kills": _kill,
    "ends in order": _terminate,
    "freezes": _freeze,
    "cuts": _cut,
    "late networks": _delay,
    "resets": _sever,
    "commits without an answer": _lose_commit,
}


async def _disturb(service: Any, pause_s: float, *, hangs: bool) -> None:
    if hangs:
        service.pause()
        await asyncio.sleep(pause_s)
        service.go_on()
        return
    await asyncio.to_thread(service.kill)
    await asyncio.sleep(pause_s)
    await asyncio.to_thread(service.start)


@dataclass
class Customers:
    """Those who start runs, and send a request again when they got no answer."""

    world: World
    client: httpx2.AsyncClient
    rng: random.Random
    taken_on: dict[str, str] = field(default_factory=dict)
    """The run of each request."""
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    resumed: int = 0
    closing: bool = False

    async def __call__(self, number: int) -> None:
        """Start one run after another, and see each of them to its end."""
        count = 0
        while not self.closing:
            count += 1
            await self.see_through(f"customer-{number}-{count}")

    async def see_through(self, key: str) -> None:
        body = {"prompt": f"Do all steps for {key}.", "pack": "engineering"}
        while True:
            told = await self._ask("POST", "/runs", 202, json=body, headers={"Idempotency-Key": key})
            if told is not None:
                break
            await asyncio.sleep(self.rng.uniform(0.1, 0.5))
        run_id = self.taken_on[key] = told["run_id"]
        while True:
            found = await self._ask("GET", f"/runs/{run_id}/status", 200)
            if found is not None and found["status"] in SETTLED:
                return
            is_idle = self.closing and found is not None and found["status"] == "interrupted"
            if is_idle and await self._is_left_to_person(run_id):
                self.resumed += await self._ask("POST", f"/runs/{run_id}/resume", 202) is not None
            await asyncio.sleep(0.5)

    async def _is_left_to_person(self, run_id: str) -> bool:
        found = await self._ask("GET", f"/runs/{run_id}/events?limit=1000", 200)
        return found is not None and found["events"][-1]["kind"] == "run_interrupted"

    async def _ask(self, method: str, path: str, wanted: int, **more: Any) -> dict[str, Any] | None:
        server = self.rng.choice(self.world.servers)
        try:
            answer = await self.client.request(method, f"{server.url}{path}", **more)
        except httpx2.TransportError as problem:
            self.refused[type(problem).__name__] += 1
            return None
        if answer.status_code == wanted:
            found: dict[str, Any] = answer.json()
            return found
        self.refused[str(answer.status_code)] += 1
        if answer.status_code == 503 and "retry-after" not in answer.headers:
            self.wrong.append(f"{method} {path}: a 503 without Retry-After")
        if answer.status_code not in {409, 425, 503}:
            self.wrong.append(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return None


@dataclass
class Report:
    """What a run of this program came to."""

    seed: int
    events: Counter[str]
    customers: Customers
    findings: Findings
    seconds: float
    settled_s: float
    accidents: list[str]

    @property
    def wrong(self) -> list[str]:
        """What must not be."""
        accepted = Counter(self.customers.taken_on.values())
        twice = [f"{run_id} was given to two requests" for run_id, count in accepted.items() if count > 1]
        extra = self.findings.runs - len(accepted)
        uninvited = [f"there are {extra} more runs than were asked for"] if extra else []
        return [*self.findings.wrong, *self.customers.wrong, *twice, *uninvited]

    def text(self) -> str:
        found = self.findings
        return (
            f"seed {self.seed}: {sum(self.events.values())} events in {self.seconds:.0f} s ({counted(self.events)}); "
            f"{found.runs} runs, {found.steps} steps, {found.takeovers} takeovers, {found.handovers} handovers, "
            f"{found.in_doubt} in doubt and named, {self.customers.resumed} left to a person; "
            f"settled {self.settled_s:.1f} s after the last event; answers other than the wanted ones: "
            f"{counted(self.customers.refused)}; {len(self.wrong)} wrong"
        )


async def blow(
    folder: Path,
    *,
    events: int,
    seed: int,
    within_s: float = math.inf,
    workers: int = 4,
    servers: int = 2,
    ttl_s: float = TTL_S,
) -> Report:
    """Let the weather do its worst to a world, and look at what is left of it."""
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(world(folder, script(), servers=servers, workers=workers, ttl_s=ttl_s))
        headers = {"Authorization": f"Bearer {there.token}"}
        client = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=REQUEST_TIMEOUT_S))
        customers = Customers(there, client, random.Random(seed + 1))
        weather = Weather(there, random.Random(seed), ttl_s)
        asking = [asyncio.create_task(customers(number)) for number in range(CUSTOMERS)]
        try:
            await weather.blow(events, within_s)
            over = time.monotonic()
            customers.closing = True
            ended, left = await asyncio.wait(asking, timeout=CALM_S)
            customers.wrong += [f"not all runs came to an end within {CALM_S:.0f} s"] if left else []
            for task in ended:
                task.result()
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        settled_s = time.monotonic() - over
        verified = await there.fabric("audit", "verify", "--json")
        if verified.code:
            customers.wrong.append(f"audit verify: {verified.out} {verified.err}")
        findings = await asyncio.to_thread(examine, there.database_url, there.fabric.root / "runs")
        accidents = [f"{member.name}: {line}" for member in there.members for line in member.accidents]
        for member in there.members:
            (folder / f"{member.name}.log").write_text("\n".join(member.lines))
        return Report(seed, weather.happened, customers, findings, over - began, settled_s, accidents)


def main() -> None:
    parser = argparse.ArgumentParser(description="Let bad weather blow over a cluster.")
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=math.inf, help="How long it may take at most.")
    parser.add_argument("--ttl", type=float, default=TTL_S, help="How long leases last; longer on a busy machine.")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--folder", default="", help="Where logs are left; empty: nowhere.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(arguments.folder or name)
        folder.mkdir(exist_ok=True)
        report = asyncio.run(
            blow(
                folder,
                events=arguments.events,
                seed=arguments.seed,
                within_s=60 * arguments.minutes,
                ttl_s=arguments.ttl,
            )
        )
    print(report.text())
    for line in (*report.wrong, *report.accidents):
        print(line)
    sys.exit(bool(report.wrong))


if __name__ == "__main__":
    main()
