"""A server's channels in memory: one platform, one store, a few people."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_fabric.application.approvals.decide_approval import DecideApproval
from agent_fabric.application.channels.answer_press import AnswerPress
from agent_fabric.application.channels.conversations import Conversations
from agent_fabric.application.channels.deliver_parts import DeliverParts, TellUndelivered
from agent_fabric.application.channels.handle_inbound import HandleInbound
from agent_fabric.application.channels.manage_people import ManagePeople
from agent_fabric.application.channels.preview_turns import PreviewTurns, Streaming
from agent_fabric.application.channels.receive_files import ReceiveFiles
from agent_fabric.application.channels.relay_answers import RelayAnswers
from agent_fabric.application.channels.run_channel import RunChannel
from agent_fabric.application.channels.send_cards import SendCards
from agent_fabric.application.channels.send_files import SendFiles
from agent_fabric.application.chat.manage_sessions import ManageSessions
from agent_fabric.application.chat.send_message import SendMessage
from agent_fabric.application.fleet.machine_calls import Machine
from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.deliveries import Part
from agent_fabric.domain.channels.inbound import ButtonPress, InboundMessage
from agent_fabric.domain.channels.pairing import PairingRequest
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.identity.accounts import User
from agent_fabric.domain.identity.principals import Role
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.calls import Policy
from agent_fabric.testing.fakes import CountingIds, FrozenClock
from contract.run_repository_contract import completed, log, run_created
from contract.storage_contract import START, asked
from memory_storage import MemoryStorage
from scripted_channel import ScriptedChannel

GROUP = Place("scripted", "1", "-5", is_direct=False)


def no_policy() -> Policy:
    raise AssertionError("nothing was changed by the person")


class Documents:
    """RunDocuments in memory: every run has the same files."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.problem: FabricError | None = None

    async def list(self, run_id: RunId, *, since: float = 0.0) -> Mapping[str, int]:
        return {path: len(content) for path, content in self.files.items()}

    async def read(self, run_id: RunId, path: str, *, max_bytes: int) -> bytes:
        if self.problem is not None:
            raise self.problem
        return self.files[path]


class World:
    """Everything that a channel needs, joined as a server joins it."""

    def __init__(
        self,
        *,
        four_eyes: bool = False,
        born_of: "World | None" = None,
        wrap: Any = lambda each: each,
        streaming: Streaming = Streaming.OFF,
    ) -> None:
        self.machines: dict[str, Machine] = {}
        self.clock: FrozenClock = born_of.clock if born_of is not None else FrozenClock(START)
        self.storage: MemoryStorage = born_of.storage if born_of is not None else MemoryStorage(self.clock)
        self.channel: ScriptedChannel = born_of.channel if born_of is not None else ScriptedChannel()
        storage = self.storage
        self.store = storage.channels
        self.stopped: list[RunId] = []
        self.alerts: list[str] = []
        self.so_far = ""
        """What is written of every answer that is under way."""
        self.documents: Documents = born_of.documents if born_of is not None else Documents()
        self._keys: itertools.count[int] = born_of._keys if born_of is not None else itertools.count(1)
        self._codes = itertools.count(1)
        store, channel = wrap(self.store), wrap(self.channel)
        people = ManagePeople(store.people, storage.users, store.outbox, self.clock)
        ids: Any = CountingIds()
        decide = DecideApproval(storage.approvals, storage.runs, no_policy, lambda: four_eyes)
        press = AnswerPress(people, store, storage.approvals, decide, storage.acts, self.clock)
        self.people = people
        undelivered = TellUndelivered(store.outbox, self.clock, self.alerts.append)
        deliver = DeliverParts(
            channel,
            store.outbox,
            store.deliveries,
            self.clock,
            documents=self.documents,
            undelivered=undelivered,
        )
        self.handle = HandleInbound(
            store=store,
            people=people,
            held=Conversations(
                store,
                storage.sessions,
                ManageSessions(storage.sessions, storage.messages, storage.retention, self.clock, ids, encrypts=False),
            ),
            queue=storage.message_queue,
            send=SendMessage(storage.sessions, storage.messages, storage.message_queue, self.clock, ids),
            stop=self._stop,
            press=press,
            new_code=lambda: f"AAAAAA{next(self._codes):02d}".replace("0", "Z").replace("1", "Y"),
            clock=self.clock,
            fetch=ReceiveFiles(self.clock),
            files=SendFiles(self.documents, self.clock),
            undelivered=undelivered,
            groups=["-5"],
        )
        self.run = RunChannel(
            channel=channel,
            store=store,
            handle=self.handle,
            relay=RelayAnswers(
                store,
                storage.reader,
                storage.message_queue,
                self.clock,
                PreviewTurns(
                    store, storage.reader, self.clock, lambda: deliver.pacer, streaming, lambda _: self.so_far
                ),
                SendFiles(self.documents, self.clock),
            ),
            cards=SendCards(
                store,
                people,
                storage.approvals,
                lambda: f"nonce{next(self._keys)}",
                self.clock,
                self._machine,
            ),
            deliver=deliver,
            locks=storage.agent_locks,
            clock=self.clock,
        )

    async def _machine(self, which: str) -> Machine:
        return self.machines.get(which, Machine(which))

    async def _stop(self, run_id: RunId, by: str) -> None:
        self.stopped.append(run_id)

    async def add(self, name: str, role: Role = Role.OPERATOR, *, number: str = "7", **more: Any) -> Sender:
        """Add a user who is paired."""
        await self.storage.users.add(User(name=name, role=role, **more), act=None)
        sender = Sender("scripted", "1", number)
        code = f"BBBBBBB{number}"
        place = Place("scripted", "1", number)
        await self.store.people.ask(PairingRequest(code=code, sender=sender, place=place, created_at=START))
        await self.store.people.pair(code, name, now=START, act=None)
        return sender

    async def write(self, text: str, *, number: str = "7", **more: Any) -> InboundMessage:
        """Let somebody write, and do what follows from it."""
        said = InboundMessage(
            key=f"u{next(self._keys)}",
            place=Place("scripted", "1", number),
            sender=Sender("scripted", "1", number),
            text=text,
            sent_at=self.clock.now(),
            message_id="31",
        )
        said = replace(said, **more)
        await self.store.inbound.add([said], now=self.clock.now())
        await self.run.step()
        return said

    async def press(self, part: Part, label: str, *, number: str = "7", **more: Any) -> None:
        """Let somebody press a button, and do what follows from it."""
        sent = await self.sent_as(part)
        data = next((each.data for each in part.buttons if each.label == label), label)
        pressed = ButtonPress(
            key=f"u{next(self._keys)}",
            place=part.place,
            sender=Sender("scripted", "1", number),
            data=data,
            message_id=sent.message_id,
            sent_at=self.clock.now(),
        )
        await self.store.inbound.add([replace(pressed, **more)], now=self.clock.now())
        await self.run.step()

    async def sent_as(self, part: Part) -> Part:
        """Return a part as it is now."""
        return next(each for each in await self.store.deliveries.of_source(part.source) if each.id == part.id)

    async def ends(self, run_id: RunId, answer: str) -> None:
        """Let the turn of a message run, and do what follows from it."""
        [turn] = [each for each in self.storage.owed.values() if each.run_id == run_id]
        held = await self.store.conversations.find(turn.place)
        assert held is not None
        created = replace(run_created(), session=held.session_id, owner="user:ann")
        held_run = await self.storage.runs.create(run_id, log(created))
        await held_run.append(log(completed(run_id, answer), first=1))
        await held_run.release()
        await self.run.step()

    async def asks(self, approval_id: str, *, owner: str = "user:ann", **more: Any) -> None:
        """Let a run of somebody ask a question, and do what follows from it."""
        run_id = RunId(f"{self.storage.count('runs'):08x}-0000-4000-8000-000000000000")
        created = replace(run_created(), owner=owner)
        await (await self.storage.runs.create(run_id, log(created, replace(asked(approval_id), **more)))).release()
        await self.run.step()

    @property
    def texts(self) -> list[str]:
        """What was sent."""
        return [each.text for each in self.channel.sent]
