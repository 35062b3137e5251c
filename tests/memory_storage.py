"""Storage in memory, for tests: every port of the store within one process, and nothing survives it.

It passes the contract suite of the store, and decides nothing that the domain decides.
"""

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent_fabric.application.ports.approvals import Answer, ApprovalCard, ApprovalStatus, follow_approvals
from agent_fabric.application.ports.audit import ChainHead, ChainReport, LogCondition
from agent_fabric.application.ports.bus import BusMessage, OutboxRow
from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.application.ports.embeddings import FoundRun, RunText, Vector
from agent_fabric.application.ports.encryption import Cipher, KeySealer
from agent_fabric.application.ports.idempotency import Claim, KeptAnswer
from agent_fabric.application.ports.runs import ANY_RUN, APPROVAL, Progress, RunPage, RunQuery, RunRecord
from agent_fabric.application.ports.vitals import StoreMeasures, StoreStatus
from agent_fabric.application.ports.webhooks import NewDelivery
from agent_fabric.domain.approvals.events import ApprovalDecided
from agent_fabric.domain.errors import ApprovalNotFound, ApprovalSettled, RunHeld, RunNotFound, StoreUnavailable
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.fleet.nodes import NodeStatus
from agent_fabric.domain.identity.ownership import EVERYTHING, OwnedRun, Viewer
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.consequences import Consequences
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.identity.limits.window_limiter import MemoryCounters
from agent_fabric.infrastructure.models.embeddings.vectors import similarities
from agent_fabric.testing.channels import MemoryChannels
from agent_fabric.testing.chat import MemoryMessageQueue, MemoryMessages, MemorySessions
from agent_fabric.testing.evals import MemoryEvals, MemoryTrials
from agent_fabric.testing.fakes import CountingIds, FrozenClock, MemoryRuns
from agent_fabric.testing.fleet import (
    MemoryCalls,
    MemoryCommands,
    MemoryInvites,
    MemoryNodes,
    MemoryNodeWork,
    MemoryPlans,
    MemoryPresence,
)
from agent_fabric.testing.identity import MemoryActs, MemoryEndedLogins, MemoryKeys, MemoryUsers
from agent_fabric.testing.memory import MemoryOfDocuments, MemoryResponses
from memory_automation import MemoryAutomation

SHORTEST_PREFIX = 4


async def _nothing_pending(_: Collection[str]) -> Collection[str]:
    """Tell nobody: processes that share no store look for themselves."""
    return ()


class MemoryStorage:
    """Storage that forgets."""

    cluster = None
    pending_work = staticmethod(_nothing_pending)

    def __init__(self, clock: Clock | None = None, ids: IdSource | None = None) -> None:
        self.clock = self._clock = clock or FrozenClock()
        self.approvals = MemoryApprovals(self._clock)
        self.runs = MemoryRuns(self._follow)
        self.approvals.runs = self.runs
        self.mirrors = NoMirrors()
        self.reader = MemoryReader(self.runs)
        self.catalogue = self.open_catalogue = MemoryCatalogue(self.runs, self.reader)
        self.queue = MemoryQueue(self.runs, self.reader, self.approvals, self._clock)
        self.leases = MemoryLeases()
        self.agent_locks = MemoryLocks()
        self.encryption = NoEncryption()
        self.vectors = MemoryVectors(self.catalogue)
        self.acts = MemoryActs()
        self.fingerprints = MemoryFingerprints()
        self.users = MemoryUsers(acts=self.acts)
        self.ended_logins = MemoryEndedLogins()
        self.api_keys = MemoryKeys(acts=self.acts)
        self.idempotency = MemoryIdempotency(self._clock, ids or CountingIds())
        self.outbox = MemoryOutbox(self._clock, self.runs)
        self.sessions = MemorySessions()
        self.messages = MemoryMessages(self.sessions, self.runs.logs.__getitem__)
        self.message_queue = MemoryMessageQueue(self.sessions)
        self.memory = MemoryOfDocuments()
        self.responses = MemoryResponses()
        self.automation = MemoryAutomation(self.runs)
        self.deliveries = MemoryDeliveries(self.automation, self.outbox)
        self.channels = MemoryChannels()
        self.nodes = MemoryNodes()
        self.node_presence = MemoryPresence(self.nodes)
        self.node_invites = MemoryInvites(self.nodes)
        self.node_commands = MemoryCommands()
        self.node_calls = MemoryCalls()
        self.node_work = MemoryNodeWork(self.nodes, self.node_commands, self.node_calls)
        self.fleet_plans = MemoryPlans()
        self.trials = MemoryTrials()
        self.evals = MemoryEvals(self.trials, self._clock)
        self.chain = MemoryChain(self.runs, self.acts)
        self.logs = self.chain
        self.retention = MemoryRetention(self.runs, self.chain)
        self.gauge = MemoryGauge(self.runs, self.approvals, self.leases, self.nodes)
        self.copies = NoCopies()
        self._counters = MemoryCounters(self._clock)

    def counters(self) -> MemoryCounters:
        return self._counters

    def look_into_inboxes(self) -> None:
        """Rows are seen at once."""

    def close(self) -> None:
        """Nothing is open."""

    def _follow(self, run_id: RunId, following: Consequences) -> None:
        self.approvals.follow(run_id, following)
        if following.messages:
            created = self.runs.logs[run_id][0].body
            assert isinstance(created, RunCreated)
            self.sessions.follow(run_id, created, following.messages)
        if following.status is not None:
            self.queue.wake_at[run_id] = following.wake_at
        if following.seal:
            self.chain.seal(run_id)
        if following.announce_from is not None:
            self.outbox.note(run_id, following.announce_from, self.runs.logs[run_id][-1])


class NoMirrors:
    """LogMirrors without any."""

    async def flush(self) -> None:
        """Nothing is held back."""

    async def catch_up(self) -> None:
        """Nothing lags."""


@dataclass(slots=True)
class MemoryReader:
    """RunReader over MemoryRuns."""

    runs: MemoryRuns

    async def status(self, run_id: RunId) -> RunStatus:
        status = await self.runs.status(run_id)
        return RunStatus.INTERRUPTED if status is RunStatus.RUNNING and run_id not in self.runs.held else status

    async def page(self, run_id: RunId, *, after: int, limit: int, whole: bool = True) -> Sequence[Event]:
        return (await self.runs.read(run_id, after=after))[:limit]

    async def newest(self, run_id: RunId) -> Event:
        return (await self.runs.read(run_id))[-1]

    async def progress(self, run_ids: Collection[RunId]) -> Mapping[RunId, Progress]:
        known = [run_id for run_id in run_ids if run_id in self.runs.logs]
        return {each: Progress(await self.status(each), len(self.runs.logs[each]) - 1) for each in known}


@dataclass(slots=True)
class MemoryCatalogue:
    """RunListing over MemoryRuns. The number of a run is its place in the order of creation."""

    runs: MemoryRuns
    reader: MemoryReader

    async def record(self, run_id: RunId) -> RunRecord:
        """Return one line about a run."""
        log = await self.runs.read(run_id)
        status = await self.reader.status(run_id)
        return RunRecord.of(run_id, status, log, created_at=log[0].ts, updated_at=log[-1].ts)

    async def recent(self, *, limit: int) -> Sequence[RunRecord]:
        newest = list(reversed(self.runs.logs))
        return [await self.record(run_id) for run_id in (newest if limit < 0 else newest[:limit])]

    async def search(
        self, query: str, *, limit: int, viewer: Viewer = EVERYTHING, only: RunQuery = ANY_RUN
    ) -> Sequence[RunRecord]:
        terms = {phrase or word for phrase, word in re.findall(r'"([^"]+)"|(\S+)', query.lower())}
        seen = [record for record in await self.recent(limit=-1) if viewer.sees(record.owner, record.visibility)]
        records = {record.run_id: record for record in seen if only.matches(record)}
        texts = {run_id: f"{record.text} {self.runs.logs[run_id]}".lower() for run_id, record in records.items()}
        scores = Counter({run_id: sum(term in text for term in terms) for run_id, text in texts.items()})
        found = [run_id for run_id, score in scores.most_common(limit) if score]
        return [replace(records[run_id], matched=texts[run_id]) for run_id in found]

    async def unindexed(self) -> int:
        return 0

    async def update_index(self) -> None:
        """There is no index."""

    async def find(self, prefix: str) -> RunId:
        return (await self.locate(prefix)).run_id

    async def locate(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> OwnedRun:
        begun = sorted(run_id for run_id in self.runs.logs if prefix and run_id.startswith(prefix.lower()))
        found = [owned for owned in map(self.runs.owned, begun) if viewer.sees(owned.owner, owned.visibility)]
        if found and (len(found) == 1 or found[0].run_id == prefix.lower()):
            return found[0]
        raise RunNotFound(f"No one run begins with {prefix!r}")

    async def newest(self, *, viewer: Viewer = EVERYTHING, owner: str = "") -> RunId:
        for run_id, log in reversed(self.runs.logs.items()):
            _, whose, visibility = self.runs.owned(run_id)
            created = log[0].body
            top = not isinstance(created, RunCreated) or (created.parent is None and not created.trial_of)
            if top and viewer.sees(whose, visibility) and owner in ("", whose):
                return run_id
        raise RunNotFound("There are no runs here yet")

    async def page(self, wanted: RunQuery, *, awaited: Container[RunId] = ()) -> RunPage:
        found: list[tuple[int, RunRecord]] = []
        for number, run_id in reversed(list(enumerate(self.runs.logs, 1))):
            record = (await self.record(run_id)).awaited(run_id in awaited)
            if (wanted.older_than is None or number < wanted.older_than) and wanted.matches(record):
                found.append((number, record))
        page = found[: wanted.limit]
        return RunPage([record for _, record in page], page[-1][0] if len(found) > len(page) else None)


@dataclass(slots=True)
class MemoryApprovals:
    """ApprovalRepository whose cards follow the events of MemoryRuns."""

    clock: Clock
    runs: MemoryRuns = field(init=False)
    cards: dict[str, ApprovalCard] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    """Questions whose answers stand in no log yet."""

    def follow(self, run_id: RunId, following: Consequences) -> None:
        """Change cards as events say."""
        recorded = {event.body.approval_id for event in following.approvals if isinstance(event.body, ApprovalDecided)}
        self.answered -= recorded
        if following.cancel_approvals:  # answers that the run never took up count for nothing
            for approval_id in [each for each in self.answered if self.cards[each].run_id == run_id]:
                self.answered.discard(approval_id)
                self.cards[approval_id] = self.cards[approval_id].undecided()
        follow_approvals(self.cards, run_id, following)
        for approval_id, card in self.cards.items():
            if card.run_id == run_id:
                self.cards[approval_id] = replace(card, owner=self.runs.owned(run_id).owner)

    def expired(self, now: float) -> set[RunId]:
        """Return the runs that have a question whose time has run out."""
        return {card.run_id for card in self._pending() if card.expires_at <= now}

    async def list(
        self, *, run_id: RunId | None = None, pending_only: bool = True, viewer: Viewer = EVERYTHING
    ) -> Sequence[ApprovalCard]:
        cards = self._pending() if pending_only else list(self.cards.values())
        wanted = [card for card in cards if run_id in (None, card.run_id) and self._visible(card, viewer)]
        return sorted(wanted, key=lambda card: (card.created_at, card.approval_id))

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> ApprovalCard:
        begun = [card for approval_id, card in self.cards.items() if approval_id.startswith(prefix)]
        found = [card for card in begun if self._visible(card, viewer)]
        if len(prefix) < SHORTEST_PREFIX or len(found) != 1:
            raise ApprovalNotFound(f"No one approval begins with {prefix!r}")
        return found[0]

    async def agreed_before(self, card: ApprovalCard, *, viewer: Viewer = EVERYTHING) -> int:
        seen = [each for each in await self.list(pending_only=False, viewer=viewer) if each.tool == card.tool]
        agreed = [each for each in seen if each.status is ApprovalStatus.APPROVED and each.rule == card.rule]
        return len([each for each in agreed if each.approval_id != card.approval_id])

    async def answer(self, approval_id: str, answer: Answer) -> None:
        now, card = self.clock.now(), self.cards.get(approval_id)
        if card is None:
            raise ApprovalNotFound(f"There is no approval {approval_id!r}")
        if card.status is not ApprovalStatus.PENDING:
            raise ApprovalSettled(f"Approval {approval_id} has been {card.status} already")
        if card.expires_at <= now:
            raise ApprovalSettled(f"Approval {approval_id} has expired")
        status = ApprovalStatus.after(answer.decision)
        self.cards[approval_id] = card.decided(status, by=answer.by, reason=answer.reason, at=now, changed=answer.args)
        self.answered.add(approval_id)
        await self.runs.post(card.run_id, APPROVAL, answer.row(approval_id))

    def _visible(self, card: ApprovalCard, viewer: Viewer) -> bool:
        _, owner, visibility = self.runs.owned(card.run_id)
        return viewer.sees(owner, visibility)

    def _pending(self) -> Sequence[ApprovalCard]:
        return [card for card in self.cards.values() if card.status is ApprovalStatus.PENDING]


@dataclass(slots=True)
class MemoryQueue:
    """RunQueue over MemoryRuns."""

    runs: MemoryRuns
    reader: MemoryReader
    approvals: MemoryApprovals
    clock: Clock
    wake_at: dict[RunId, float | None] = field(default_factory=dict)

    async def unfinished(self, *, limit: int | None = None) -> Sequence[RunId]:
        running = [run_id for run_id in self.runs.logs if await self.runs.status(run_id) is RunStatus.RUNNING]
        free = {run_id: self._parent(run_id) for run_id in running if run_id not in self.runs.held}
        return [run_id for run_id, parent in free.items() if parent not in free][:limit]

    def _parent(self, run_id: RunId) -> RunId | None:
        created = self.runs.logs[run_id][0].body
        return created.parent.run_id if isinstance(created, RunCreated) and created.parent else None

    async def due(self) -> Sequence[RunId]:
        now = self.clock.now()
        expired = self.approvals.expired(now)
        waiting = [run_id for run_id in self.runs.logs if await self.runs.status(run_id) is RunStatus.WAITING]
        return [
            run_id
            for run_id in waiting
            if run_id in expired
            or self.runs.unread(run_id, 0)
            or ((at := self.wake_at.get(run_id)) is not None and at <= now)
        ]


@dataclass(slots=True)
class MemoryLeases:
    """RunLeases of one process."""

    driver: str = "a test"
    served: bool = False

    def claim_server(self) -> bool:
        claimed, self.served = not self.served, True
        return claimed

    def release_server(self) -> None:
        self.served = False

    def is_served(self) -> bool:
        return self.served


@dataclass(slots=True)
class MemoryLocks:
    """NamedLocks of one process."""

    held: set[str] = field(default_factory=set)

    async def acquire(self, name: str) -> bool:
        free = name not in self.held
        self.held.add(name)
        return free

    async def release(self, name: str) -> None:
        self.held.discard(name)

    async def is_held(self, name: str) -> bool:
        return name in self.held

    async def taken(self, names: Sequence[str]) -> Collection[str]:
        return self.held.intersection(names)


@dataclass(frozen=True, slots=True)
class NoEncryption:
    """RunEncryption of a store in which nothing is encrypted."""

    driven: Container[RunId] = frozenset()

    def cipher_of(self, run_id: RunId) -> Cipher | None:
        return None

    async def reseal(self, keyring: KeySealer) -> int:
        return 0


@dataclass(slots=True)
class MemoryOutbox:
    """Outbox that forgets."""

    clock: Clock
    runs: MemoryRuns
    noted: dict[RunId, OutboxRow] = field(default_factory=dict)
    kept: dict[str, tuple[BusMessage, float]] = field(default_factory=dict)

    def note(self, run_id: RunId, from_seq: int, last: Event) -> None:
        """Note that the bus is to be told of events."""
        row = self.noted.get(run_id, OutboxRow(run_id, from_seq, last.seq, last.ts))
        self.noted[run_id] = row._replace(upto_seq=last.seq)

    def put(self, message: BusMessage) -> None:
        self.kept.setdefault(message.message_id, (message, self.clock.now()))

    async def messages(self, *, limit: int) -> Sequence[tuple[BusMessage, float]]:
        return list(self.kept.values())[:limit]

    async def remove(self, message_ids: Collection[str]) -> None:
        for message_id in message_ids:
            self.kept.pop(message_id, None)

    async def rows(self, *, limit: int) -> Sequence[OutboxRow]:
        return [row for run_id, row in self.noted.items() if run_id in self.runs.logs][:limit]

    async def settle(self, row: OutboxRow) -> None:
        now = self.noted.get(row.run_id)
        if now is not None and now.upto_seq == row.upto_seq:
            del self.noted[row.run_id]
        elif now is not None:
            self.noted[row.run_id] = now._replace(from_seq=max(now.from_seq, row.upto_seq + 1))


@dataclass(slots=True)
class MemoryVectors:
    """RunVectors over MemoryRuns; words count nothing here."""

    catalogue: MemoryCatalogue
    kept: dict[tuple[str, int], Vector] = field(default_factory=dict)

    def _ids(self) -> Mapping[int, RunId]:
        return dict(enumerate(self.catalogue.runs.logs, 1))

    async def missing(self, embedder: str, *, dimensions: int) -> Sequence[int]:
        settled = [
            number for number, run_id in self._ids().items() if (await self.catalogue.runs.status(run_id)).settled
        ]
        return [each for each in reversed(settled) if len(self.kept.get((embedder, each), b"")) != 4 * dimensions]

    async def texts(self, numbers: Sequence[int]) -> Sequence[RunText]:
        records = [(number, await self.catalogue.record(self._ids()[number])) for number in numbers]
        return [RunText(number, f"{record.prompt}\n{record.summary}") for number, record in records]

    async def keep(self, embedder: str, texts: Sequence[RunText], vectors: Sequence[Vector]) -> None:
        self.kept.update({(embedder, text.number): vector for text, vector in zip(texts, vectors, strict=True)})

    async def nearest(
        self,
        embedder: str,
        question: Vector,
        *,
        words: str,
        limit: int,
        viewer: Viewer = EVERYTHING,
    ) -> Sequence[FoundRun]:
        known = [(number, vector) for (name, number), vector in self.kept.items() if name == embedder]
        scores = similarities([vector for _, vector in known], question)
        best = sorted(zip(scores, (number for number, _ in known), strict=True), reverse=True)
        found = [FoundRun(await self.catalogue.record(self._ids()[number]), score) for score, number in best]
        return [each for each in found if viewer.sees(each.record.owner, each.record.visibility)][:limit]


@dataclass(slots=True)
class MemoryIdempotency:
    """IdempotencyStore that forgets."""

    clock: Clock
    ids: IdSource
    kept_s: float = 24 * 3600.0
    claims: dict[tuple[str, str], tuple[float, bytes, Claim]] = field(default_factory=dict)

    async def claim(self, who: str, key: str, request: bytes) -> Claim:
        now = self.clock.now()
        at, known, claim = self.claims.get((who, key), (float("-inf"), b"", None))
        if claim is not None and at > now - self.kept_s:
            return replace(claim, is_new=False, same_request=known == request)
        claim = Claim(run_id=self.ids.new_run_id(), is_new=True, same_request=True)
        self.claims[who, key] = (now, request, claim)
        return claim

    async def keep(self, who: str, key: str, answer: KeptAnswer, *, about: Sequence[str] = ()) -> None:
        at, request, claim = self.claims[who, key]
        self.claims[who, key] = (at, request, replace(claim, answer=answer))


@dataclass(slots=True)
class MemoryDeliveries:
    """DeliveryStore that forgets."""

    automation: MemoryAutomation
    outbox: MemoryOutbox
    known: set[tuple[str, str]] = field(default_factory=set)

    async def find(self, source: str, delivery_id: str, runs: Sequence[RunId]) -> Sequence[RunId] | None:
        there = self.automation.tables.runs.logs
        return [run_id for run_id in runs if run_id in there] if (source, delivery_id) in self.known else None

    async def take(self, delivery: NewDelivery) -> Sequence[RunId] | None:
        key, tables = (delivery.source, delivery.delivery_id), self.automation.tables
        if key in self.known:
            return None
        self.known.add(key)
        new = {run_id: created for run_id, created in delivery.runs.items() if run_id not in tables.runs.logs}
        for run_id, created in new.items():
            tables.create(run_id, created)
        for letter in delivery.letters:
            tables.letters.setdefault(letter.id, letter)
        if delivery.message is not None:
            self.outbox.put(delivery.message)
        return list(new)


@dataclass(slots=True)
class MemoryChain:
    """AuditChain and LogInspector over MemoryRuns, where nothing can be damaged."""

    runs: MemoryRuns
    acts: MemoryActs
    removed: list[RunId] = field(default_factory=list)
    _sealed: list[str] = field(default_factory=list)

    def seal(self, run_id: RunId) -> None:
        """Add an entry."""
        self._sealed.append(f"{run_id} {len(self.runs.logs.get(run_id, ()))}")

    async def verify(self) -> ChainReport:
        return ChainReport(
            entries=len(self._sealed) + len(self.acts.acts),
            runs=len(self.runs.logs),
            removed=len(self.removed),
            head=self._head(len(self._sealed), len(self.acts.acts)),
            damage=(),
        )

    async def holds(self, head: str) -> bool:
        counts = ((s, a) for s in range(len(self._sealed) + 1) for a in range(len(self.acts.acts) + 1) if s + a)
        return any(head == self._head(*each) for each in counts)

    async def head(self) -> ChainHead:
        counts = len(self._sealed), len(self.acts.acts)
        return ChainHead(sum(counts), bytes.fromhex(self._head(*counts)) if any(counts) else b"")

    async def accept(self) -> str:
        return ""

    def _head(self, sealed: int, acts: int) -> str:
        return _digest(self._sealed[:sealed], self.acts.acts[:acts])

    async def inspect(self, run_id: RunId) -> LogCondition:
        log = await self.runs.read(run_id)
        return LogCondition(events=len(log), head=_digest(log), status=await self.runs.status(run_id))


def _digest(*values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()


@dataclass(slots=True)
class MemoryRetention:
    """RetentionStore over MemoryRuns."""

    runs: MemoryRuns
    chain: MemoryChain

    async def settled_before(self, at: float) -> "list[RunId]":
        return [
            run_id
            for run_id, log in self.runs.logs.items()
            if (await self.runs.status(run_id)).settled and log[-1].ts < at and not await self._has_live_kin(run_id)
        ]

    async def _has_live_kin(self, run_id: RunId) -> bool:
        created = self.runs.logs[run_id][0].body
        parent = {created.parent.run_id} if isinstance(created, RunCreated) and created.parent else set[RunId]()
        kin = parent | set(self.runs.children(run_id))
        return any([not (await self.runs.status(each)).settled for each in kin & set(self.runs.logs)])

    async def remove(self, run_id: RunId, *, by: str, reason: str) -> int:
        size = len(repr(await self.runs.read(run_id)))
        if run_id in self.runs.held:
            raise RunHeld(f"Run {run_id} is being driven")
        del self.runs.logs[run_id]
        self.chain.removed.append(run_id)
        self.chain.seal(run_id)
        return size

    async def sweep(self) -> int:
        return 0


@dataclass(slots=True)
class MemoryGauge:
    """StoreGauge that measures nothing but the number of runs, approvals and machines."""

    runs: MemoryRuns
    approvals: MemoryApprovals
    leases: MemoryLeases
    nodes: MemoryNodes

    def require_in_place(self) -> None:
        """It is."""

    async def status(self, *, check: bool) -> StoreStatus:
        counted = Counter([(await self.runs.status(run_id)).value for run_id in self.runs.logs])
        return StoreStatus(
            path=":memory:",
            format=0,
            size_bytes=0,
            wal_bytes=0,
            unused_bytes=0,
            free_bytes=0,
            runs={status.value: counted[status.value] for status in RunStatus},
            events=sum(map(len, self.runs.logs.values())),
            blobs=0,
            oldest_run_at=min((log[0].ts for log in self.runs.logs.values()), default=None),
            served=self.leases.served,
            damage=() if check else None,
        )

    async def measure(self) -> StoreMeasures:
        pending, nodes = await self.approvals.list(), await self.nodes.list()
        return StoreMeasures(
            approvals_waiting=len(pending),
            oldest_approval_at=min((card.created_at for card in pending), default=None),
            store_bytes=0,
            disk_free_bytes=0,
            disk_total_bytes=0,
            nodes_online=sum(node.status is NodeStatus.ONLINE for node in nodes),
            nodes_offline=sum(node.status is NodeStatus.OFFLINE and node.last_seen is not None for node in nodes),
        )

    async def try_to_write(self) -> None:
        await asyncio.sleep(0)


class MemoryFingerprints:
    """KeyFingerprints in a dictionary."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    async def read(self) -> dict[str, str]:
        return dict(self._known)

    async def add(self, fingerprints: Mapping[str, str]) -> dict[str, str]:
        self._known = {**fingerprints, **self._known}
        return dict(self._known)

    async def replace(self, fingerprints: Mapping[str, str]) -> None:
        self._known |= fingerprints


class NoCopies:
    """StoreCopies of what cannot be copied."""

    def require_own(self) -> None:
        pass

    def copy_to(self, target: Path, on_progress: Callable[[float], None]) -> None:
        raise StoreUnavailable("A store in memory cannot be copied")

    def check(self, copy: Path) -> int:
        raise StoreUnavailable(f"{copy} is not a copy of a store in memory")

    def sealed_keys(self, copy: Path | None = None) -> list[bytes]:
        return []

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        yield
