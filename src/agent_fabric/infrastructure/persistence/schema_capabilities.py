"""The newest entries of `schema.MIGRATIONS`, each in the module of its capability."""

from typing import Final

from agent_fabric.infrastructure.persistence.automation.schema import FIRING_INDEXES, ON_DOUBT
from agent_fabric.infrastructure.persistence.channels.schema import CHANNEL_FILES, CHANNELS
from agent_fabric.infrastructure.persistence.fleet.schema import FLEET, FLEET_CALLS, FLEET_HOLDERS
from agent_fabric.infrastructure.persistence.memory.schema import (
    DOCUMENT_REVISIONS,
    MEMORY,
    RESPONSES,
    VECTORS_BY_HASH,
)

CAPABILITIES: Final = (
    *(FLEET, CHANNELS, FIRING_INDEXES, MEMORY, FLEET_CALLS, CHANNEL_FILES),
    *(DOCUMENT_REVISIONS, RESPONSES, VECTORS_BY_HASH, FLEET_HOLDERS, ON_DOUBT),
)
