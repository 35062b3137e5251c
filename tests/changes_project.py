"""A project folder and runs that work in it, driven by hand."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_fabric.application.runs.undo_run import Undone
from agent_fabric.bootstrap.records import Records, open_records
from agent_fabric.bootstrap.runs import diff_run, undo_run
from agent_fabric.domain.events import Event, RunCancelled, RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Budget, Profile
from agent_fabric.infrastructure.clock import RandomIds
from agent_fabric.infrastructure.runs.changes.watched_runs import WatchedRuns


@dataclass
class Project:
    """A folder with a `.fabric` in it."""

    folder: Path
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True, parents=True)
        self.records: Records = open_records(self.folder / ".fabric")

    @property
    def runs(self) -> WatchedRuns:
        layout = self.records.layout
        return WatchedRuns(self.records.runs, layout, lambda _, text: self.said.append(text))

    def created(self, run_id: RunId, folder: Path | None = None) -> Event:
        body = RunCreated(
            prompt="work",
            specialist_id=None,
            model_key="quality",
            network_allowed=False,
            profile=Profile.TASK,
            budget=Budget.of(Profile.TASK),
            workspace=str(folder or self.folder),
            sandbox="C",
            policy_version="",
            fabric_version="",
        )
        return Event(0, time.time(), None, "", body)

    @asynccontextmanager
    async def run(self, run_id: RunId | None = None, *, settle: bool = True) -> AsyncIterator[RunId]:
        """Hold a new run, or an old one once more, while its changes are made."""
        if run_id is None:
            run_id = RandomIds().new_run_id()
            held = await self.runs.create(run_id, (self.created(run_id),))
        else:
            held, _, _ = await self.runs.take(run_id)
        try:
            yield run_id
            if settle:
                seq = len(await self.records.runs.read(run_id))
                await held.append([Event(seq, time.time(), None, "", RunCancelled(by="test", reason=""))])
        finally:
            await held.release()

    async def changed(self, run_id: RunId) -> dict[str, str]:
        found = await diff_run(self.records)(run_id)
        return {change.path: change.what for change in found.changes}

    async def undo(
        self, run_id: RunId, *paths: str, redo: bool = False, dry: bool = False, force: bool = False
    ) -> Undone:
        return await undo_run(self.records)(run_id, by="a test", paths=paths, redo=redo, dry=dry, force=force)

    def state(self) -> dict[str, object]:
        """Return everything in the folder, as far as people see it."""
        found: dict[str, object] = {}
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            if name.split("/", maxsplit=1)[0] in {".fabric", "node_modules", ".git"} or "__pycache__" in name:
                continue
            mode = path.lstat().st_mode
            if path.is_symlink():
                found[name] = ("link", str(path.readlink()))
            else:
                found[name] = (oct(mode), path.read_bytes() if path.is_file() else None)
        return found
