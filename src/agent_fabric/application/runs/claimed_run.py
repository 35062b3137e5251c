"""A run in our hands, between being created or taken and being driven."""

from collections.abc import Sequence
from typing import NamedTuple

from agent_fabric.application.ports.runs import HeldRun
from agent_fabric.domain.events import Body
from agent_fabric.domain.runs.state import RunState


class ClaimedRun(NamedTuple):
    """What `DriveRun` needs to go on with a run that this process holds."""

    held: HeldRun
    state: RunState
    opening: Sequence[Body] = ()
    """What is recorded first."""
