"""The node's own folder: its key, whom it belongs to, and how its connection fares. Only its user can read it."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Final, Self

from agent_fabric.application.ports.node import NotEnrolled
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.infrastructure.atomic_files import sync_folder, write_atomically
from agent_fabric.infrastructure.fleet.signing import SigningKey

ENROLMENT: Final = "enrolment.json"
KEY: Final = "key"
NEW_KEY: Final = "key.new"
STATUS: Final = "status.json"
SPOOL: Final = "spool.db"
OUTPUTS: Final = "outputs"
UPLOADS: Final = "uploads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolment:
    """Whom a node belongs to."""

    agent_id: str
    name: str
    url: str
    hub_key: str
    """The hub's public key, pinned."""
    state: str = ""
    """What the hub gave out with the last session: a copy of this folder is found out by it."""


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """The folder."""

    path: Path

    def make(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        for name in (OUTPUTS, UPLOADS):
            (self.path / name).mkdir(mode=0o700, exist_ok=True)

    @property
    def is_enrolled(self) -> bool:
        return (self.path / ENROLMENT).exists()

    def enrolment(self) -> Enrolment:
        """Return whom it belongs to.

        Raises:
            NotEnrolled: no one.
        """
        try:
            plain = json.loads((self.path / ENROLMENT).read_text())
        except FileNotFoundError:
            raise NotEnrolled(f"{self.path} belongs to no node; join a hub first") from None
        known = {each.name for each in fields(Enrolment)}
        return Enrolment(**{name: value for name, value in plain.items() if name in known})

    def write_enrolment(self, enrolment: Enrolment) -> None:
        self._write(ENROLMENT, json.dumps(asdict(enrolment), indent=1).encode())

    def write_state(self, state: str) -> Enrolment:
        """Remember the state of a session durably, before the session is used."""
        changed = replace(self.enrolment(), state=state)
        self.write_enrolment(changed)
        return changed

    def key(self) -> SigningKey:
        """Return the node's key; it is made if there is none."""
        return self._read_key(KEY) or self._new_key(KEY)

    def new_key(self) -> SigningKey:
        """Return the key that is to replace the other one; it is made if there is none."""
        return self._read_key(NEW_KEY) or self._new_key(NEW_KEY)

    def pending_key(self) -> SigningKey | None:
        """Return the key that is to replace the other one, if a change of keys is under way."""
        return self._read_key(NEW_KEY)

    def adopt_new_key(self) -> SigningKey:
        (self.path / NEW_KEY).replace(self.path / KEY)
        sync_folder(self.path)
        return self.key()

    def drop_new_key(self) -> None:
        (self.path / NEW_KEY).unlink(missing_ok=True)

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Tell `status` how the connection fares."""
        write_atomically(self.path / STATUS, json.dumps(status).encode(), durable=False)

    def status(self) -> dict[str, Any]:
        """Return how the connection fares, as the running node has told it last."""
        try:
            found: dict[str, Any] = json.loads((self.path / STATUS).read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return found

    @classmethod
    def default(cls) -> Self:
        return cls(Path("/var/lib/fabric-node") if os.geteuid() == 0 else Path.home() / ".fabric-node")

    def _read_key(self, name: str) -> SigningKey | None:
        try:
            return SigningKey.of(bytes.fromhex((self.path / name).read_text().strip()))
        except FileNotFoundError:
            return None

    def _new_key(self, name: str) -> SigningKey:
        key = SigningKey.new()
        self._write(name, key.seed.hex().encode())
        return key

    def _write(self, name: str, data: bytes) -> None:
        write_atomically(self.path / name, data)
        sync_folder(self.path)
