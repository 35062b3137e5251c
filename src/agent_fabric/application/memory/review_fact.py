"""Reviews, explains and forgets facts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agent_fabric.application.memory.forget_document import find_remains
from agent_fabric.application.memory.propose_fact import RememberFact
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.memory import (
    MAX_FACTS,
    FactQuery,
    Forgotten,
    MemoryStore,
    MemoryUse,
    WhyFact,
)
from agent_fabric.application.ports.runs import RunCatalogue, RunReader
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FactRefused, RunKeyMissing, RunNotFound
from agent_fabric.domain.events import RunCompleted
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer
from agent_fabric.domain.ids import FactId, RunId
from agent_fabric.domain.memory.facts import Fact, FactStatus, accept_text, cited_facts, pinned_block
from agent_fabric.domain.memory.likeness import compare
from agent_fabric.domain.runs.answer import answer_in

MAX_MENTIONS: Final = 100


@dataclass(frozen=True, slots=True)
class ReviewFact:
    """Use case: let a person decide about facts. Facts of other owners do not exist for them."""

    memory: MemoryStore
    clock: Clock
    reader: RunReader | None = None
    """Reads the answers that may cite facts; None: what was noted has to do."""
    catalogue: RunCatalogue | None = None
    """Finds runs in which a sentence was said without memory knowing; None: no one looks."""

    async def accept(self, prefix: str, *, by: str, viewer: Viewer = EVERYTHING, replaces: str = "") -> Fact:
        """Accept a proposal, and retire the fact that it replaces.

        Raises:
            MemoryNotFound: there is no such fact.
            FactSettled: it was reviewed before.
            FactRefused: it contradicts a fact in use, and replaces none.
        """
        facts, now = self.memory.facts, self.clock.now()
        fact = await facts.find(prefix, viewer=viewer)
        older = await facts.find(replaces, viewer=viewer) if replaces else None
        accepted = fact.accept(by, now)
        others = await self._contradicted_facts(fact, older)
        if others:
            listed = "; ".join(f"{each.id} {each.text!r}" for each in others)
            raise FactRefused(
                f"It may contradict what is known: {listed}",
                hint=f"Choose: fabric memory review --accept {fact.id} --replaces {others[0].id}, or --reject.",
            )
        if older is not None:
            accepted = replace(accepted, supersedes=older.id)
        if accepted.pinned:
            await self._require_room(accepted)
        await facts.change(accepted, was=FactStatus.PROPOSED)
        if older is not None:
            await facts.change(older.retire(by, now), was=FactStatus.ACTIVE)
        return accepted

    async def reject(self, prefix: str, *, by: str, viewer: Viewer = EVERYTHING) -> Fact:
        """Reject a proposal.

        Raises:
            MemoryNotFound, FactSettled: as above.
        """
        fact = (await self.memory.facts.find(prefix, viewer=viewer)).reject(by)
        await self.memory.facts.change(fact, was=FactStatus.PROPOSED)
        return fact

    async def confirm(self, prefix: str, *, by: str, viewer: Viewer = EVERYTHING) -> Fact:
        """Say that a fact still holds.

        Raises:
            MemoryNotFound, FactSettled: as above.
        """
        fact = (await self.memory.facts.find(prefix, viewer=viewer)).confirm(by, self.clock.now())
        await self.memory.facts.change(fact, was=FactStatus.ACTIVE)
        return fact

    async def pin(self, prefix: str, *, pinned: bool, viewer: Viewer = EVERYTHING) -> Fact:
        """Tell agents a fact without being asked, or no longer.

        Raises:
            MemoryNotFound: there is no such fact.
            FactRefused: the pinned facts would not fit.
        """
        fact = replace(await self.memory.facts.find(prefix, viewer=viewer), pinned=pinned)
        if pinned:
            await self._require_room(fact)
        await self.memory.facts.change(fact, was=fact.status)
        return fact

    async def edit(
        self, prefix: str, text: str | None, *, by: str, viewer: Viewer = EVERYTHING, pinned: bool | None = None
    ) -> Fact:
        """Replace a fact by one with another text, pin it or unpin it, or both; None leaves that as it is.

        Raises:
            MemoryNotFound: there is no such fact.
            FactRefused: the text cannot be remembered, or the pinned facts would not fit; nothing is changed.
        """
        fact = await self.memory.facts.find(prefix, viewer=viewer)
        if text is None:
            return fact if pinned is None else await self.pin(fact.id, pinned=pinned, viewer=viewer)
        stays_pinned = fact.pinned if pinned is None else pinned
        if stays_pinned:
            await self._require_room(replace(fact, text=accept_text(text), pinned=True))
        return await RememberFact(self.memory.facts, self.clock)(
            text,
            by=by,
            kind=fact.kind,
            scope=fact.scope,
            subject=fact.subject,
            replaces=fact,
            pinned=stays_pinned,
        )

    async def why(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> WhyFact:
        """Say where a fact comes from, and what rests on it.

        Raises:
            MemoryNotFound: there is no such fact.
        """
        fact = await self.memory.facts.find(prefix, viewer=viewer)
        known = await self.memory.facts.list(FactQuery(owner=fact.owner))
        newer = next((each for each in known if each.supersedes == fact.id), None)
        others = await self._contradicted_facts(fact, newer)
        return WhyFact(fact, await self._uses(fact), newer, others)

    async def forget(self, prefix: str, *, by: str, viewer: Viewer = EVERYTHING, erase: bool = False) -> Forgotten:
        """Retire a fact, or erase it; say which answers rest on it and which logs still hold it.

        Raises:
            MemoryNotFound: there is no such fact.
            FactSettled: it is not in use, and is not to be erased.
        """
        fact = await self.memory.facts.find(prefix, viewer=viewer)
        uses = await self._uses(fact)
        source = [] if fact.source_run is None else [fact.source_run]
        runs = [*source, *(use.run_id for use in uses), *await self._mentions(fact)]
        left = await find_remains(self.reader, runs, await self._kin(fact))
        if erase:
            await self.memory.facts.erase(fact.id)
        else:
            fact = fact.reject(by) if fact.status is FactStatus.PROPOSED else fact.retire(by, self.clock.now())
            was = FactStatus.PROPOSED if fact.status is FactStatus.REJECTED else FactStatus.ACTIVE
            await self.memory.facts.change(fact, was=was)
        return Forgotten(fact, uses, left)

    async def _mentions(self, fact: Fact) -> list[RunId]:
        """Return runs of the owner whose task or answer has the sentence; those that are encrypted are not searched."""
        if self.catalogue is None or not fact.text:
            return []
        phrase = fact.text.replace('"', " ")
        own = Viewer((fact.owner,), sees_all=False)
        return [each.run_id for each in await self.catalogue.search(f'"{phrase}"', limit=MAX_MENTIONS, viewer=own)]

    async def _kin(self, fact: Fact) -> list[str]:
        """Say which facts that it replaced, or that replace it, are still there."""
        known = await self.memory.facts.list(FactQuery(owner=fact.owner, limit=MAX_FACTS))
        kin = [each for each in known if fact.id == each.supersedes or each.id == fact.supersedes]
        return [f"Fact {each.id}, another version of it, is still there: {each.text!r}" for each in kin]

    async def _require_room(self, fact: Fact) -> None:
        """Check that a fact fits beside those that are pinned.

        Raises:
            FactRefused: it does not.
        """
        query = FactQuery(owner=fact.owner, statuses=(FactStatus.ACTIVE,))
        beside = [each for each in await self.memory.facts.list(query) if each.id not in (fact.id, fact.supersedes)]
        pinned_block([*beside, fact], self.clock.now())

    async def _uses(self, fact: Fact) -> Sequence[MemoryUse]:
        """Return the runs that were told a fact, and say of each whether its answer cites it."""
        uses = await self.memory.uses.of(fact.id)
        return [use if use.cited else use._replace(cited=await self._cites(use.run_id, fact.id)) for use in uses]

    async def _cites(self, run_id: RunId, fact_id: FactId) -> bool:
        if self.reader is None:
            return False
        try:
            last = (await self.reader.newest(run_id)).body
        except (RunNotFound, RunKeyMissing):
            return False  # nothing of it can be read any more
        return isinstance(last, RunCompleted) and fact_id in cited_facts(answer_in(last.payload))

    async def _contradicted_facts(self, fact: Fact, beside: Fact | None) -> Sequence[Fact]:
        query = FactQuery(owner=fact.owner, scope=fact.scope, subject=fact.subject, statuses=(FactStatus.ACTIVE,))
        gone = {fact.id, fact.supersedes, None if beside is None else beside.id}
        known = [each for each in await self.memory.facts.list(query) if each.id not in gone]
        likeness = compare(fact.text, known)
        return likeness.contradicted if likeness.duplicate is None else (likeness.duplicate,)
