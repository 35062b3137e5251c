"""The newest entries of `schema.MIGRATIONS`, each in the module of its capability."""

from typing import Final

from agent_fabric.infrastructure.persistence.schema_automation import FIRING_INDEXES
from agent_fabric.infrastructure.persistence.schema_channels import CHANNELS
from agent_fabric.infrastructure.persistence.schema_fleet import FLEET

CAPABILITIES: Final = (FLEET, CHANNELS, FIRING_INDEXES)
