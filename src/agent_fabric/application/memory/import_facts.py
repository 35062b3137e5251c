"""Takes facts from a file that was exported."""

from collections.abc import Sequence
from dataclasses import replace

from agent_fabric.application.memory.propose_fact import NewId, new_fact_id, refuse_likeness
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.memory import MAX_FACTS, FactQuery, FactRepository, Imported, LeftOut
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FactRefused, MemoryNotFound
from agent_fabric.domain.ids import FactId
from agent_fabric.domain.memory.facts import Fact, FactStatus, pinned_block
from agent_fabric.domain.memory.markdown import as_imported, import_facts


@dataclass(frozen=True, slots=True)
class ImportFacts:
    """Use case: take the facts of an export for someone. Importing a file again changes nothing."""

    facts: FactRepository
    clock: Clock
    new_id: NewId = new_fact_id

    async def __call__(self, text: str, *, owner: str, source: str, vouched: bool) -> Imported:
        """Take the facts of a file; unless its new owner vouches for it, what was in use waits for a review.

        Raises:
            FactRefused: a line is no fact, one is too long or a secret, or pinned facts do not fit; nothing was taken.
        """
        wanted = [as_imported(each, owner, source, vouched=vouched) for each in import_facts(text)]
        known = {fact.id: fact for fact in await self.facts.list(FactQuery(owner=owner, limit=MAX_FACTS))}
        pinned_block([*known.values(), *(each for each in wanted if each.id not in known)], self.clock.now())
        ids = {fact.id: await self._free_id(fact.id, owner) for fact in wanted}
        added: list[Fact] = []
        left_out: list[LeftOut] = []
        for fact in wanted:
            if fact.id in known:
                left_out.append(LeftOut(fact, f"Fact {fact.id} is there already"))
                continue
            older = fact.supersedes
            own = replace(fact, id=ids[fact.id], supersedes=None if older is None else ids.get(older, older))
            try:
                await self._add(own)
            except FactRefused as refused:
                left_out.append(LeftOut(own, refused.message))
            else:
                added.append(own)
        return Imported(added, left_out)

    async def _add(self, fact: Fact) -> None:
        def check(known: Sequence[Fact]) -> None:
            if fact.status in (FactStatus.ACTIVE, FactStatus.PROPOSED):
                # As for proposals: an open fact is not held against sealed ones.
                refuse_likeness(fact, [each for each in known if fact.sealed or not each.sealed])

        await self.facts.add(fact, check=check)

    async def _free_id(self, wanted: FactId, owner: str) -> FactId:
        """Return an id that no fact of someone else has."""
        try:
            return wanted if (await self.facts.find(wanted)).owner == owner else self.new_id()
        except MemoryNotFound:
            return wanted
