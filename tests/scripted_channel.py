"""A channel for tests, whose platform answers as it is told."""

import asyncio
from dataclasses import dataclass, field

from agent_fabric.application.ports.channels import ChannelState, ChannelStatus, Take
from agent_fabric.domain.channels.deliveries import Accepted, AnswerLost, Part, SendOutcome
from agent_fabric.domain.channels.files import FileProblem
from agent_fabric.domain.channels.inbound import ButtonPress, Inbound, InboundFile
from agent_fabric.domain.channels.pacing import Paces
from agent_fabric.domain.channels.rendering import PLAIN, Rendering


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass(slots=True)
class ScriptedChannel:
    """Channel of a platform that answers as it is told, and remembers what it was sent."""

    status: ChannelStatus = field(
        default_factory=lambda: ChannelStatus("scripted", account="1", state=ChannelState.CONNECTED)
    )
    rendering: Rendering = PLAIN
    paces: Paces = field(default_factory=Paces)
    outcomes: list[SendOutcome] = field(default_factory=list)
    """What is answered to the next parts; after them, everything is accepted."""
    traces: list[SendOutcome] = field(default_factory=list)
    """What is found out about the next parts in doubt; after them, it is unknown."""
    traced: list[Part] = field(default_factory=list)
    sent: list[Part] = field(default_factory=list)
    answers: list[tuple[ButtonPress, str]] = field(default_factory=list)
    updates: list[Inbound] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    """What people have sent, by its id there."""
    files_arrive: asyncio.Event = field(default_factory=_set_event)
    """Cleared: files take their time until it is set."""

    async def receive(self, take: Take) -> None:
        await take(self.updates)

    async def send(self, part: Part) -> SendOutcome:
        self.sent.append(part)
        return self.outcomes.pop(0) if self.outcomes else Accepted(f"m{len(self.sent)}")

    async def trace(self, part: Part) -> SendOutcome:
        self.traced.append(part)
        return self.traces.pop(0) if self.traces else AnswerLost("nobody knows")

    async def answer(self, press: ButtonPress, text: str) -> None:
        self.answers.append((press, text))

    async def download(self, file: InboundFile, *, max_bytes: int) -> bytes | FileProblem:
        await self.files_arrive.wait()
        content = self.files.get(file.file_id)
        if content is None:
            return FileProblem("it is not there")
        return content if len(content) <= max_bytes else FileProblem("it is too large")

    async def aclose(self) -> None:
        """Nothing is open."""
