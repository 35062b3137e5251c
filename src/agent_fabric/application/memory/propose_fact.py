"""Remembers facts: what a person says at once, what a run proposes after a review."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.memory import FactRepository, Proposal
from agent_fabric.application.ports.runs import RunRepository
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FactRefused
from agent_fabric.domain.events import Event, ModelAnswered, RunCreated, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.ids import FactId, RunId
from agent_fabric.domain.memory.facts import Fact, FactKind, FactScope, FactStatus, accept_text, pinned_block
from agent_fabric.domain.memory.learning import Learning, check_quote, quotable_in, status_of_proposal
from agent_fabric.domain.memory.likeness import compare

NewId = Callable[[], FactId]


def new_fact_id() -> FactId:
    """Return an id that no other fact has."""
    return FactId(uuid.uuid4().hex[:12])


@dataclass(frozen=True, slots=True)
class RememberFact:
    """Use case: remember what a person says, on their word alone."""

    facts: FactRepository
    clock: Clock
    new_id: NewId = new_fact_id

    async def __call__(
        self,
        text: str,
        *,
        by: str,
        kind: FactKind = FactKind.FACT,
        scope: FactScope = FactScope.USER,
        subject: str = "",
        replaces: Fact | None = None,
        pinned: bool = False,
        sealed: bool = False,
    ) -> Fact:
        """Remember a fact for the person who says it, and return it.

        Raises:
            FactRefused: it is too long, a secret, or there already; or it contradicts others, which are named.
        """
        now = self.clock.now()
        line = accept_text(text)
        fact = Fact(
            id=self.new_id(),
            owner=by,
            scope=scope,
            subject=subject,
            kind=kind,
            text=line,
            source_quote=line,
            said_by=by,
            created_at=now,
            supersedes=None if replaces is None else replaces.id,
            pinned=pinned,
            sealed=sealed,
        ).accept(by, now)

        def check(known: Sequence[Fact]) -> None:
            refuse_likeness(fact, known)
            if pinned:
                pinned_block([*(each for each in known if each.id != fact.supersedes), fact], now)

        await self.facts.add(fact, check=check)
        if replaces is not None:
            await self.facts.change(replaces.retire(by, now), was=FactStatus.ACTIVE)
        return fact


@dataclass(frozen=True, slots=True)
class ProposeFact:
    """Use case: let a run propose a fact, which rests on the words of a person or a document.

    Whose run it is and what it has read is taken from its log, and not from the proposer.
    """

    facts: FactRepository
    runs: RunRepository
    clock: Clock
    learning: Learning = Learning.REVIEW
    new_id: NewId = new_fact_id

    async def __call__(self, proposal: Proposal) -> Fact:
        """Return the fact, which waits for a review unless a person's own words may be taken.

        Raises:
            FactRefused: it rests on nothing, is too long, a secret or there already, or learning is off.
        """
        text = accept_text(proposal.text)
        events = await self.runs.read(proposal.run_id)
        created = events[0].body
        if not isinstance(created, RunCreated):
            raise FactRefused("The start of the run cannot be read", hint="Add the fact yourself.")
        owner, untrusted = created.task.owner, await _untrusted_in(proposal.run_id, events)
        event = _quoted_event(events, proposal, owner)
        said = check_quote(proposal.quote, [] if event is None else quotable_in(event.body, owner))
        if event is not None and isinstance(event.body, ToolReturned) and not event.body.origin:
            _refuse_own_words(events, event, proposal.quote)
        status = status_of_proposal(self.learning, said, text, untrusted)
        now = self.clock.now()
        fact = Fact(
            id=self.new_id(),
            owner=owner,
            scope=proposal.scope,
            subject=proposal.subject,
            kind=proposal.kind,
            text=text,
            source_run=proposal.run_id,
            source_seq=0 if event is None else event.seq,
            source_quote=proposal.quote,
            said_by=said.said_by,
            untrusted=untrusted,
            created_at=now,
            sealed=created.encrypted,
        )
        if status is FactStatus.ACTIVE:
            fact = fact.accept("", now)  # no one has looked at it
        # What a sealed fact says must not stand in the log of an open run, not even in a refusal.
        await self.facts.add(
            fact, check=lambda known: refuse_likeness(fact, [each for each in known if fact.sealed or not each.sealed])
        )
        return fact


async def _untrusted_in(run_id: RunId, events: Sequence[Event]) -> tuple[str, ...]:
    """Return where a run has read text that no one vouches for: by its labels, and by each call of any lane."""
    state = await fold_log(run_id, events)
    origins = [event.body.origin for event in events if isinstance(event.body, ToolReturned | ToolErred)]
    return tuple(dict.fromkeys([*state.untrusted, *filter(None, origins)]))


def _quoted_event(events: Sequence[Event], proposal: Proposal, owner: str) -> Event | None:
    """Return the event that is quoted; None: nothing in the run can be quoted so."""
    for event in events:
        if proposal.seq is None:
            if any(proposal.quote in said.text for said in quotable_in(event.body, owner)):
                return event
        elif event.seq == proposal.seq:
            return event
    return None


def _refuse_own_words(events: Sequence[Event], quoted: Event, quote: str) -> None:
    """Refuse what the model wrote into a file before it read it: a guess does not become a document.

    Raises:
        FactRefused: it did.
    """
    for event in events:
        if event is quoted:
            return
        body = event.body
        if isinstance(body, ModelAnswered) and quote in body.content:
            break
        if isinstance(body, ToolCalled) and any(quote in text for text in _texts(body.args)):
            break
    else:
        return
    raise FactRefused(
        "The model wrote this itself, before it was read in a file",
        hint="Quote what a person wrote, or a file or page that was there before.",
    )


def _texts(values: Mapping[str, Any]) -> Iterator[str]:
    for value in values.values():
        if isinstance(value, str):
            yield value


def refuse_likeness(fact: Fact, known: Sequence[Fact]) -> None:
    """Refuse a fact that is there already, or that contradicts one in use without replacing it.

    A proposal may contradict others: the reviewer is shown them, and chooses.

    Raises:
        FactRefused: it names the others.
    """
    beside = [each for each in known if each.id != fact.supersedes]
    likeness = compare(fact.text, beside)
    if likeness.duplicate is not None:
        other = likeness.duplicate
        raise FactRefused(f"Fact {other.id} says the same: {other.text!r}", hint=f"See `fabric memory why {other.id}`.")
    in_use = [each for each in likeness.contradicted if each.status is FactStatus.ACTIVE]
    if in_use and fact.status is FactStatus.ACTIVE:
        listed = "; ".join(f"{each.id} {each.text!r}" for each in in_use[:3])
        raise FactRefused(
            f"It may contradict what is known: {listed}",
            hint=f"To replace one: fabric memory edit {in_use[0].id} TEXT. To keep both, say how they differ.",
        )
