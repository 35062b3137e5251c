"""Where agents are defined."""

from agent_fabric.config.schema.declared import Settings
from agent_fabric.config.schema.values import Texts


class AgentsConfig(Settings):
    """Where the files of agents are."""

    definitions: Texts = ("agent-definitions",)
    """Folders with files of agents: JSON, YAML, or Markdown with front matter. A path that is not absolute begins at
    the folder that holds `.fabric`, and at the current one if that lies below. Files may change while runs are under
    way; a run keeps what it began with."""
