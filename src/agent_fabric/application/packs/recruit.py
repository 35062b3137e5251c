"""Chooses who does a task."""

from collections.abc import Sequence

from agent_fabric.domain.errors import RecruitError
from agent_fabric.domain.events import SpecialistsRecruited
from agent_fabric.domain.ids import SpecialistId
from agent_fabric.domain.runs.task import Task


def recruit_specialist(task: Task, known: Sequence[SpecialistId]) -> SpecialistsRecruited:
    """Return who does the task: the pack that was asked for, or the first one configured.

    Raises:
        RecruitError: there is no such pack.
    """
    if task.specialist_id is not None and task.specialist_id not in known:
        raise RecruitError(
            f"There is no pack {task.specialist_id!r}",
            hint=f"Known packs: {', '.join(known) or 'none'}.",
        )
    if not known:
        raise RecruitError("No pack is configured", hint="Add one under `specialists` in the configuration.")
    chosen = task.specialist_id or known[0]
    return SpecialistsRecruited(
        specialist_id=chosen,
        specialist_ids=(chosen,),
        required_capabilities=(),
        routing_method="explicit" if task.specialist_id else "default",
        is_task_force=False,
    )
