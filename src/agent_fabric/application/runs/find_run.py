"""Finds runs for callers: what a caller may not see does not exist for it."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import field

from agent_fabric.application.ports.audit import ActLog
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.runs import RunListing, RunRecord
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.ownership import Viewer, Visibility
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.ids import RunId

NOTED_S = 3600.0
"""Repeated reads of a private run by one caller are recorded once in this time."""
MAX_NOTED = 10_000


@dataclass(frozen=True, slots=True)
class FindRun:
    """Use case: find a run, and record that a private one of another owner was read."""

    catalogue: RunListing
    acts: ActLog
    clock: Clock
    _noted: OrderedDict[tuple[str, str], float] = field(default_factory=OrderedDict)

    async def __call__(self, prefix: str, *, by: Principal) -> RunId:
        """Return the one run whose id begins so and that the caller may see.

        Raises:
            RunNotFound: none, or more than one, begins so.
            StoreFull, StoreUnavailable: the read cannot be recorded, so it does not happen.
        """
        viewer = Viewer.of(by)
        found = await self.catalogue.locate(prefix, viewer=viewer)
        if found.visibility is Visibility.PRIVATE and not viewer.owns(found.owner):
            await self._note(by, Deed.PRIVATE_RUN_READ, about=found.run_id, detail=f"of {found.owner}")
        return found.run_id

    async def note_listed(self, records: Iterable[RunRecord], *, by: Principal) -> None:
        """Record that a list showed private runs of other owners, if it did."""
        viewer = Viewer.of(by)
        if any(each.visibility is Visibility.PRIVATE and not viewer.owns(each.owner) for each in records):
            await self._note(by, Deed.PRIVATE_RUNS_LISTED)

    async def _note(self, by: Principal, deed: Deed, *, about: str = "", detail: str = "") -> None:
        key, now = (by.id, about or deed.value), self.clock.now()
        if now - self._noted.get(key, float("-inf")) < NOTED_S:
            return
        await self.acts.record(Act.of(by, deed, at=now, about=about, detail=detail))
        self._noted[key] = now
        self._noted.move_to_end(key)
        if len(self._noted) > MAX_NOTED:
            self._noted.popitem(last=False)
