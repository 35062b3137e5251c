"""Which runs a viewer may see, as a condition of SQL."""

from agent_fabric.domain.ownership import Viewer, Visibility
from agent_fabric.infrastructure.persistence.sql import Condition, marks


def visible_to(viewer: Viewer, table: str = "runs") -> Condition:
    """Return the condition under which a run, or what a table has instead, exists for a viewer; see `Viewer.sees`."""
    if viewer.sees_all:
        return Condition("1 = 1", ())
    return Condition(
        f"({table}.visibility = ? OR {table}.owner IN ({marks(viewer.owners)}))",
        (Visibility.TEAM.value, *viewer.owners),
    )
