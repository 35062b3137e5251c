"""The processes that share a database, as objects."""

from collections.abc import Sequence
from typing import NamedTuple

from agent_fabric.application.ports.cluster import ClusterStatus, Member, Undrivable
from agent_fabric.wire.shape import Shape


class ClusterView(NamedTuple):
    """Who is there, and what is left to do."""

    shared: bool
    """False: the store is a file of one machine, and there is nothing to list."""
    workers: Sequence[Member]
    """Live processes, and dead ones whose runs have not been taken up yet."""
    now: float | None = None
    """The database's time."""
    home: str = ""
    """Where the workspaces are that the process can open which answers."""
    queued: int = 0
    """Runs that wait for a process to drive them."""
    waiting: int = 0
    """Runs that wait for a person, a time or a signal; they cost nothing."""
    undrivable: Sequence[Undrivable] = ()


def view_of(status: ClusterStatus | None) -> ClusterView:
    """Return what is shown of a cluster; None: the store is not shared."""
    if status is None:
        return ClusterView(shared=False, workers=())
    return ClusterView(
        shared=True,
        workers=status.members,
        now=status.now,
        home=status.home,
        queued=status.queued,
        waiting=status.waiting,
        undrivable=status.undrivable,
    )


MEMBER = Shape(
    Member,
    "id=worker_id name role state home slots pools version started_at lease_until running",
    name="ClusterMember",
)
CLUSTER = Shape(ClusterView, name="Cluster", parts=[MEMBER, Shape(Undrivable, name="UndrivableRuns")])
