"""Which runs a viewer may see, as a condition of SQL."""

from typing import Final

from agent_fabric.domain.identity.ownership import Viewer, Visibility
from agent_fabric.infrastructure.persistence.sql import Condition, marks

_SHARED = (
    "(runs.session_id <> '' AND EXISTS (SELECT 1 FROM chat_sessions"
    " WHERE chat_sessions.id = runs.session_id AND chat_sessions.visibility = 'team'))"
)
SEEN_BY: Final = f"CASE WHEN {_SHARED} THEN 'team' ELSE runs.visibility END"
"""Who sees a run: a turn of a session that is shared is shared with it, whatever it was when it began."""


def visible_to(viewer: Viewer, table: str = "runs") -> Condition:
    """Return the condition under which a run, or what a table has instead, exists for a viewer; see `Viewer.sees`."""
    if viewer.sees_all:
        return Condition("1 = 1", ())
    if table == "runs":  # turns of a session that is shared are shared with it
        return Condition(
            f"(runs.visibility = ? OR runs.owner IN ({marks(viewer.owners)}) OR {_SHARED})",
            (Visibility.TEAM.value, *viewer.owners),
        )
    return Condition(
        f"({table}.visibility = ? OR {table}.owner IN ({marks(viewer.owners)}))",
        (Visibility.TEAM.value, *viewer.owners),
    )
