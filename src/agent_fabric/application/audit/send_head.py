"""Sends the head of the audit chain to places outside of this machine's folder."""

from collections.abc import Sequence
from dataclasses import field

from agent_fabric.application.ports.audit import AuditChain, HeadPlace
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.operations import OperationsLog
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError

EVERY_S = 60.0
"""How often a server looks whether there is a new head."""


@dataclass(slots=True)
class SendHead:
    """Use case: send the newest head to every configured place, once."""

    chain: AuditChain
    places: Sequence[HeadPlace]
    clock: Clock
    folder: str
    """The fabric folder that the chain is of."""
    _sent: dict[str, bytes] = field(default_factory=dict)
    """The head that each place got last."""

    async def __call__(self) -> Sequence[str]:
        """Send it where it is not known yet; return what went wrong, one sentence each."""
        try:
            head = await self.chain.head()
        except FabricError as problem:
            return [f"The head of the audit chain cannot be read: {problem.message}"]
        message = {
            "folder": self.folder,
            "entries": head.position,
            "head": head.hash.hex(),
            "at": self.clock.now(),
        }
        problems = []
        for place in self.places:
            if not head.hash or self._sent.get(place.name) == head.hash:
                continue
            try:
                await place.send(message)
                self._sent[place.name] = head.hash
            except (OSError, ValueError, FabricError) as problem:
                problems.append(f"The head of the audit chain was not sent to {place.name}: {problem}")
        return problems

    async def forever(self, log: OperationsLog) -> None:
        """Send each new head until cancelled."""
        while True:
            for problem in await self():
                log.warning("audit_head_not_sent", message=problem)
            await self.clock.sleep(EVERY_S)
