"""Seals what a fabric folder keeps with a new key, and forgets old ones."""

import asyncio
from typing import NamedTuple, Protocol

from agent_fabric.application.ports.encryption import KeySealer
from agent_fabric.application.ports.key_fingerprints import ENCRYPTION
from agent_fabric.application.ports.secrets import SecretFile
from agent_fabric.application.ports.storage import Storage
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.plural import count_of


class Keyring(KeySealer, Protocol):
    """The user's keys, which are used one after another."""

    @property
    def generation(self) -> str:
        """Short name of the newest key."""
        ...

    @property
    def makes_keys(self) -> bool:
        """Whether keys are made here, and not given from outside."""
        ...

    def rotate(self) -> str:
        """Make a new key, and return its short name."""
        ...

    def drop_old(self) -> None:
        """Forget all keys but the newest."""
        ...

    def note_resealed(self) -> None:
        """Record that everything of the folder is sealed with the newest key."""
        ...


class Rotation(NamedTuple):
    """What a rotation did."""

    generation: str
    """Short name of the key that everything is sealed with now."""
    new_key: bool
    """Whether it was made just now."""
    secrets: int
    """How many secrets were sealed anew."""
    runs: int
    """How many runs' keys were sealed anew."""


@dataclass(frozen=True, slots=True)
class RotateKeys:
    """Use case: seal everything in a fabric folder with the newest key. Who did it goes into the audit chain.

    It can be stopped at any time and begun again: old keys stay, and open what is not done yet.
    """

    keyring: Keyring
    file: SecretFile
    storage: Storage

    async def __call__(self, *, by: Principal) -> Rotation:
        """Make a new key, unless keys are given from outside, and use it.

        Raises:
            FabricError: something cannot be opened, or not be written.
        """
        return await self._record(by, Deed.SECRETS_ROTATED, await self._reseal(new_key=True))

    async def drop_old(self, *, by: Principal) -> Rotation:
        """Use the newest key, and forget all others.

        Raises:
            ConfigError: keys are given from outside, or were changed only just now.
            FabricError: something cannot be opened: the old keys stay.
        """
        done = await self._reseal(new_key=False)
        await asyncio.to_thread(self.keyring.drop_old)
        return await self._record(by, Deed.OLD_KEYS_DROPPED, done)

    async def _reseal(self, *, new_key: bool) -> Rotation:
        keyring, fingerprints = self.keyring, self.storage.fingerprints
        made = new_key and keyring.makes_keys
        if made:
            await asyncio.to_thread(keyring.rotate)
        resealed = await asyncio.to_thread(self.file.reseal)
        runs = await self.storage.encryption.reseal(keyring)
        await asyncio.to_thread(keyring.note_resealed)
        if ENCRYPTION in await fingerprints.read():
            await fingerprints.replace({ENCRYPTION: keyring.generation})
        return Rotation(keyring.generation, made, resealed, runs)

    async def _record(self, by: Principal, deed: Deed, done: Rotation) -> Rotation:
        detail = f"{count_of(done.secrets, 'secret')} and {count_of(done.runs, 'run')} sealed again" + (
            "; a new key" if done.new_key else ""
        )
        about = f"key {done.generation}"
        await self.storage.acts.record(Act.of(by, deed, at=self.storage.clock.now(), about=about, detail=detail))
        return done
