"""`fabric cluster`: the servers and workers that share a database."""

import asyncio
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from agent_fabric.application.ports.cluster import Member
from agent_fabric.bootstrap.records import Records, store_address
from agent_fabric.config.constants import DEFAULT_POOL
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.plural import count_of
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import configuration, require_a_person
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import Folder, Noun, Place, in_store, work_within
from agent_fabric.wire.cluster import CLUSTER, MEMBER, ClusterView, view_of

if TYPE_CHECKING:
    from agent_fabric.application.cluster.drill_takeover import DrillReport

NOT_SHARED = "The store is a file of this machine, which other machines do not share"
HOW_TO_SHARE = "`store.url` names a PostgreSQL database that several machines share."

app = new_app("Look after servers and workers that share a store.")


class _LocalCluster:
    """The processes that share the store of a fabric folder."""

    def __init__(self, records: Records) -> None:
        self._cluster = records.storage.cluster

    async def status(self) -> ClusterView:
        return view_of(None if self._cluster is None else await self._cluster.status())

    async def drain(self, worker: str) -> Member:
        if self._cluster is None:
            raise ConfigError(NOT_SHARED, hint=HOW_TO_SHARE)
        return await self._cluster.drain(worker)


_cluster = Noun(in_store(_LocalCluster), lambda client: client.cluster)


@app.command()
def status(*, at: Place) -> int:
    """Show the workers, the runs they drive, and those that none can. Exit code 1 if some runs cannot be driven."""
    found = _cluster(at, lambda cluster: cluster.status())
    at.print(CLUSTER.dump(found), _text(found) if found.shared else f"{NOT_SHARED}.\n{HOW_TO_SHARE}\n")
    return FAILED if found.undrivable else COMPLETED


@app.command()
def drain(worker: Annotated[str, typer.Argument(help="Id of the worker, or how it begins.")], *, at: Folder) -> int:
    """Let a worker take nothing on any more, and hand over what it drives. It ends when that is done."""
    require_a_person()
    member = work_within(_cluster.here(at), lambda cluster: cluster.drain(worker))
    line = f"{member.worker_id} ({member.name}) takes nothing on any more and hands over {_runs(member.running)}"
    return at.print(MEMBER.dump(member), f"{plain(line)}\n")


@app.command()
def drill(*, at: Folder) -> int:
    """Kill a worker that the drill has started itself, and measure how long it takes until another one goes on.

    The worker drives one run that only waits and needs no model; nothing else is touched. Another `fabric worker` or
    `fabric serve` must be there.

    Exit codes: 0 another process went on and repeated nothing, 1 none did, or none is there, 2 the store is not shared.
    """
    require_a_person()
    root = at.root()
    if not store_address(root).is_remote:
        raise ConfigError(NOT_SHARED, hint=HOW_TO_SHARE)

    from agent_fabric.bootstrap.worker import drill as go  # noqa: PLC0415 - what drives runs takes its time

    begun = time.monotonic()

    def tell(sentence: str) -> None:
        sys.stderr.write(f"{time.monotonic() - begun:6.1f} s  {plain(sentence)}\n")
        sys.stderr.flush()

    report = asyncio.run(go(root, configuration(root), (lambda _: None) if at.as_json else tell))
    at.print({**asdict(report), "passed": report.passed}, f"{plain(_outcome(report))}\n")
    return COMPLETED if report.passed else FAILED


def _outcome(report: "DrillReport") -> str:
    if report.takeover_s is None:
        waited = f"{report.lease_ttl_s:g} s of lease"
        return f"Failed: nobody took run {report.run_id} over after {waited}. See who is there: fabric cluster status"
    late = "" if report.takeover_s <= report.expected_s else f", later than the {report.expected_s:g} s to expect"
    steps = f"{count_of(report.finished, 'step')}"
    steps += f", {report.finished_before} of them before the kill, {report.repeated} repeated"
    word = "Passed" if report.passed else "Failed"
    return (
        f"{word}: taken over after {report.takeover_s:.1f} s (lease {report.lease_ttl_s:g} s{late}) by "
        f"{report.taken_over_by}; run {report.run_id} {report.status}, {steps}"
    )


def _text(found: ClusterView) -> str:
    lines = [_line(each, found.now or 0.0) for each in found.workers] or ["No process is there."]
    lines.append(f"{_runs(found.queued)} queued, {found.waiting} waiting for a person, a time or a signal")
    lines += [
        f"Nobody can drive {_runs(each.runs)} of {each.home or 'no home'}, pool {each.pool}: {each.reason}"
        f" ({'it is' if each.runs == 1 else 'one is'} {each.run_id})"
        for each in found.undrivable
    ]
    return "".join(f"{plain(line)}\n" for line in lines)


def _line(member: Member, now: float) -> str:
    left = member.lease_until - now
    lease = f"lease {left:.0f} s" if member.state != "gone" else f"lapsed {-left:.0f} s ago"
    what = f"{member.role:<7}  {member.state:<8}  {member.running} of {count_of(member.slots, 'run')}  {lease}"
    pools = "" if tuple(member.pools) == (DEFAULT_POOL,) else f"  pool {', '.join(member.pools)}"
    return f"{member.worker_id[:8]}  {what}  {member.name}  {member.home}{pools}  {member.version}".rstrip()


def _runs(count: int) -> str:
    return count_of(count, "run")
