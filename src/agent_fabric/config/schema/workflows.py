"""Where workflows are defined."""

from agent_fabric.config.schema.declared import Settings
from agent_fabric.config.schema.values import Texts


class WorkflowsConfig(Settings):
    """Where the files of workflows are."""

    definitions: Texts = ("workflow-definitions",)
    """Folders with files of workflows: JSON or YAML. A path that is not absolute begins at the folder that holds
    `.fabric`, and at the current one if that lies below. Files may change while runs are under way; a run keeps what
    it began with."""
