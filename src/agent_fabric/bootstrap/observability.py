"""What examines an installation: the parts joined."""

from pathlib import Path

from agent_fabric.application.observability.find_answering_keys import FindAnsweringKeys
from agent_fabric.application.observability.find_missing_prerequisites import FindMissingPrerequisites
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.application.ports.storage import Storage
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.infrastructure.clock import SystemClock


def missing_prerequisites(root: Path, config: FabricConfig, resolve: Resolve) -> FindMissingPrerequisites:
    """Return the use case that finds what settings refer to that does not exist."""
    return FindMissingPrerequisites(config.webhooks, config.alerts, resolve, lambda: open_workflows(root, config))


def answering_keys(config: FabricConfig, resolve: Resolve, storage: Storage) -> FindAnsweringKeys:
    """Return the use case that warns of keys with which a run could answer questions."""
    return FindAnsweringKeys(config.specialists, resolve, storage.api_keys.find, SystemClock().now)
