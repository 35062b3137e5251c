"""Accepts the present record in place of the one that was expected."""

from dataclasses import dataclass, replace

from agent_fabric.application.ports.audit import ActLog, AuditChain
from agent_fabric.domain.audit.acts import Act


@dataclass(frozen=True, slots=True)
class AcceptHead:
    """Use case: expect the chain that is there now, and record who said so and which head was expected before."""

    chain: AuditChain
    acts: ActLog

    async def __call__(self, act: Act) -> None:
        """Accept the chain because of an act.

        Raises:
            StoreFull, StoreUnavailable: it cannot be recorded.
        """
        before = await self.chain.accept()
        said = [act.detail] if act.detail else []
        if before:
            said.append(f"instead of the record with head {before}")
        await self.acts.record(replace(act, detail=", ".join(said)))
