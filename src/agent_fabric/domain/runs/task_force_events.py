"""What happens when several specialists share a task; see `events` for the contract."""

from dataclasses import dataclass
from typing import ClassVar

from agent_fabric.domain.ids import SpecialistId
from agent_fabric.domain.runs.task import TaskForceMode


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskForceStarted:
    """Several specialists begin at once."""

    kind: ClassVar = "task_force_parallel"

    specialist_ids: tuple[SpecialistId, ...]
    mode: TaskForceMode


@dataclass(frozen=True, slots=True, kw_only=True)
class PackFailed:
    """One specialist of several ended without a result; the others go on."""

    kind: ClassVar = "pack_failed"

    specialist_id: SpecialistId
    code: str
    message: str
    hint: str
