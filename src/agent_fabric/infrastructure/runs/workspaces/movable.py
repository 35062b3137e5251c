"""Which runs may be driven on any machine."""

from pathlib import Path

from agent_fabric.domain.events import RunCreated
from agent_fabric.domain.ids import RunId


def is_own(workspace: str, run_id: RunId) -> bool:
    """Tell whether a workspace is the run's own, on whichever machine that was."""
    return workspace.endswith(f"/runs/{run_id}/workspace")


def may_move(run_id: RunId, created: object) -> bool:
    """Tell whether any machine may drive a new run: one with a workspace of its own, in which nothing lies yet."""
    if not isinstance(created, RunCreated) or not is_own(created.workspace, run_id):
        return False
    alone = created.parent is None and created.workflow is None and created.continues is None and not created.session
    try:
        return alone and not created.encrypted and not any(Path(created.workspace).iterdir())
    except OSError:
        return False
