"""The processes that share one database."""

from collections.abc import Sequence
from typing import Protocol

from agent_fabric.config.constants import DEFAULT_LEASE_TTL_S, DEFAULT_POOL
from agent_fabric.domain.cluster.roles import Role
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """What a process says about itself."""

    name: str = ""
    """For people: `process 7 on build-3`; empty: made of the process and its machine."""
    role: Role = Role.PROCESS
    home: str = ""
    """Where the workspaces are that it can open; empty: on this machine."""
    opens_saved: bool = False
    """Whether it finds workspaces that others have saved."""
    saves_workspaces: bool = False
    """Whether it saves those of new runs."""
    slots: int = 1
    """How many runs it drives at a time."""
    pools: Sequence[str] = (DEFAULT_POOL,)
    """Of which pools it takes up runs by itself."""
    version: str = ""
    lease_ttl_s: float = DEFAULT_LEASE_TTL_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A process, as the others see it."""

    worker_id: str
    name: str
    role: str
    state: str
    """`active`, `draining`, or `gone`: its lease has lapsed, or it has left."""
    home: str
    slots: int
    pools: Sequence[str]
    version: str
    started_at: float
    lease_until: float
    """By the database's time."""
    running: int
    """How many runs it drives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrivable:
    """Runs that no one who lives can take up."""

    home: str
    """Where their workspaces are."""
    pool: str
    runs: int
    reason: str
    """What is missing, in a sentence."""
    run_id: RunId
    """One of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """Who is there, and what is left to do."""

    now: float
    """The database's time."""
    home: str
    """Where the workspaces are that this process can open."""
    members: Sequence[Member]
    """Those who live, and those who died with runs that no one has taken up yet."""
    queued: int
    """Runs that wait for someone who drives them."""
    waiting: int
    """Runs that wait for a person, a time or a signal; they cost nothing."""
    undrivable: Sequence[Undrivable] = ()


class Cluster(Protocol):
    """The processes of one database, and this one among them."""

    async def status(self) -> ClusterStatus:
        """Look at everyone.

        Raises:
            StoreUnavailable: the database cannot be read.
        """
        ...

    async def drain(self, prefix: str) -> Member:
        """Ask the one process whose id begins so to take nothing on any more and to hand over what it drives.

        Raises:
            WorkerNotFound: none, or more than one, begins so.
        """
        ...

    async def refuse(self, run_id: RunId, reason: str) -> None:
        """Let others know that this process cannot drive a run, and why. It has to be said again within a minute.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        ...

    @property
    def worker_id(self) -> str:
        """This process, which joins the others if it has not yet.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        ...

    @property
    def drains(self) -> bool:
        """Whether someone asked this process to hand over what it drives."""
        ...


class DrillWorker(Protocol):
    """A worker that a drill has started itself, with one slot. It drives the drill's run and can take on no other."""

    @property
    def worker_id(self) -> str:
        """Its id among the processes that share the store."""
        ...

    @property
    def pid(self) -> int: ...

    @property
    def run_id(self) -> RunId: ...

    async def kill(self) -> None:
        """End it at once, as a crash would: it hands nothing over."""
        ...
