"""Keep and forget secrets."""

import asyncio

from agent_fabric.application.ports.audit import ActLog
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.secrets import SecretFile
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.principals import Principal


@dataclass(frozen=True, slots=True)
class ChangeSecrets:
    """Use cases: keep a secret, forget one. Who did it goes into the audit chain, with its name and nothing more."""

    file: SecretFile
    acts: ActLog
    clock: Clock

    async def set(self, name: str, value: str, *, by: Principal) -> bool:
        """Keep a secret; tell whether it is a new one.

        Raises:
            ConfigError: the name or the value cannot be used.
            FabricError: the secret cannot be kept, or that it is kept cannot be recorded.
        """
        is_new = await asyncio.to_thread(self.file.set, name, value)
        detail = "new" if is_new else "changed"
        await self.acts.record(Act.of(by, Deed.SECRET_SET, at=self.clock.now(), about=name, detail=detail))
        return is_new

    async def remove(self, name: str, *, by: Principal) -> bool:
        """Forget a secret; tell whether there was one.

        Raises:
            FabricError: it cannot be forgotten, or that it is cannot be recorded.
        """
        removed = await asyncio.to_thread(self.file.remove, name)
        if removed:
            await self.acts.record(Act.of(by, Deed.SECRET_REMOVED, at=self.clock.now(), about=name))
        return removed
