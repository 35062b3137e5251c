"""What notices things and starts workflows."""

from collections.abc import Mapping

from pydantic import Field

from agent_fabric.config.schema.values import EntryKey, Settings, Text, Texts


class SensorConfig(Settings):
    """A sensor, and the workflow that it starts."""

    kind: Text
    """`file_change`, `freshness`, `event`, or the name of an entry point of `agent_fabric.sensors`."""
    workflow: Text
    """The workflow that is started for each happening, with those of its inputs that it takes."""
    every_s: float = Field(default=10.0, ge=0.1, le=86_400)
    """How often it looks."""
    paths: Texts = ()
    """With `file_change` and `freshness`: patterns such as `inbox/*.csv`, beginning beside the fabric folder."""
    settle_s: float = Field(default=2.0, ge=0, le=86_400)
    """With `file_change`: a file counts when its size and date have been the same for so long."""
    max_age_s: float | None = Field(default=None, gt=0)
    """With `freshness`: how old the newest file may be."""
    events: Texts = ()
    """With `event`: such as `workflow.completed` or `webhook.code`; `*` stands for one part, `>` for the rest."""
    options: Mapping[EntryKey, Text] = {}
    """With an entry point: what it is given."""
