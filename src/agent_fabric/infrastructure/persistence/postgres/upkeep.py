"""Looks after a PostgreSQL database: its tables, its settings, and bringing a fabric folder into it."""

from dataclasses import dataclass, field
from pathlib import Path

from agent_fabric.application.ports.database import CopiedStore, DatabaseFacts, Migrated, Tell
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.infrastructure.persistence.postgres.connection import place_of
from agent_fabric.infrastructure.persistence.postgres.examination import examine
from agent_fabric.infrastructure.persistence.postgres.folder_copy import copy_folder
from agent_fabric.infrastructure.persistence.postgres.migration import migrate
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys


@dataclass(frozen=True, slots=True)
class PostgresUpkeep:
    """DatabaseUpkeep of a PostgreSQL database."""

    url: str = field(repr=False)
    key: AuditKey
    keys: RunKeys

    @property
    def place(self) -> str:
        return place_of(self.url)

    def migrate(self) -> Migrated:
        return migrate(self.url)

    def examine(self) -> DatabaseFacts:
        return examine(self.url)

    def copy_from(self, folder: Path, *, damaged: bool, tell: Tell) -> CopiedStore:
        return copy_folder(folder, self.url, self.key, self.keys, damaged=damaged, tell=tell)
