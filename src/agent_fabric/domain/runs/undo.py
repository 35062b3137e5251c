"""Plans an undo: the paths to restore, and the paths that someone else has changed since."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.runs.changes import Entry, EntryKind, FileChange, FolderSnapshot, below_any, same


class UndoStep(NamedTuple):
    """One path to restore."""

    path: str
    current: Entry | None
    """As it is now; anything else that is found there is left alone."""
    target: Entry | None
    """As it shall be; None: gone."""


class UndoRefusal(NamedTuple):
    """One path that is left as it is."""

    path: str
    reason: str
    final: bool
    """No force helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """The plan of an undo."""

    steps: Sequence[UndoStep] = ()
    refused: Sequence[UndoRefusal] = ()
    already: Sequence[str] = ()
    """Paths that are as they were before."""

    @property
    def blocked(self) -> bool:
        """Someone's work would be lost: nothing is to be done unless forced."""
        return any(not refusal.final for refusal in self.refused)


def plan_undo(
    changes: Iterable[FileChange],
    now: FolderSnapshot,
    *,
    paths: Sequence[str] = (),
    unfinished: Collection[str] = (),
    force: bool = False,
) -> UndoPlan:
    """Decide path by path.

    `unfinished` are those that an earlier undo, which was killed, may have left half-way.
    """
    steps: dict[str, UndoStep] = {}
    refused: list[UndoRefusal] = []
    already: list[str] = []
    for change in changes:
        path, current = change.path, now.entries.get(change.path)
        if paths and not below_any(path, paths):
            continue
        if same(current, change.before):
            already.append(path)
        elif reason := change.why_final:
            refused.append(UndoRefusal(path, reason, final=True))
        elif not force and (reason := _why_not(change, current, path in unfinished)):
            refused.append(UndoRefusal(path, reason, final=False))
        else:
            steps[path] = UndoStep(path, current, change.before)
    kept = _folders_that_must_stay(steps, now)
    for path in kept:
        step = steps.pop(path)
        if step.target is not None:
            refused.append(UndoRefusal(path, "the folder holds files that are not the run's", final=True))
        else:
            already.append(path)
    return UndoPlan(steps=[steps[path] for path in sorted(steps)], refused=refused, already=already)


def _why_not(change: FileChange, current: Entry | None, was_half_way: bool) -> str:
    half_way = was_half_way and (current is None or current.kind is EntryKind.FOLDER)
    if not same(current, change.after) and not half_way:
        return "it was changed after the run"
    if current is not None and current.kind is EntryKind.FILE and not current.digest:
        return "it is too large to be kept, so that this could not be undone"
    if change.mixed:
        return "another program changed it between two changes of the run"
    return "it may have been changed after the run was stopped" if change.doubtful else ""


def _folders_that_must_stay(steps: dict[str, UndoStep], now: FolderSnapshot) -> list[str]:
    """Return the folders to be removed in which something else lies."""
    going = {path for path, step in steps.items() if _goes(step)}
    staying: set[str] = set()
    for path in now.entries:
        if path in going:
            continue
        end = path.rfind("/")
        while end >= 0 and (above := path[:end]) not in staying:
            staying.add(above)
            end = path.rfind("/", 0, end)
    return sorted(going & staying)


def _goes(step: UndoStep) -> bool:
    return step.target is None or (step.current is not None and step.current.kind is not step.target.kind)
