"""A folder that has become a link is refused by every operation: nothing behind it is read, written or removed."""

import tarfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.web import Page
from agent_fabric.bootstrap.records import Records, folder_backups, open_records, owner_here
from agent_fabric.bootstrap.runs import collect_garbage, diff_run, fetch_files, undo_run, verify_run
from agent_fabric.domain.errors import FabricError, FolderLinked
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Budget, Profile
from agent_fabric.infrastructure.clock import RandomIds
from agent_fabric.infrastructure.runs.changes.watched_runs import WatchedRuns
from agent_fabric.infrastructure.runs.log.jsonl_log import JsonlRunLog
from contract.run_repository_contract import completed, log

MARKER = "MARKER-behind-the-link"
OWN = RunId("00000000-0000-4000-8000-00000000000a")
HERE = RunId("00000000-0000-4000-8000-00000000000b")
RUN = "RUN"
"""Stands for the folder of a run."""


@dataclass
class Place:
    """A fabric folder with a run of its own and one that worked in a project, and a folder elsewhere."""

    folder: Path
    found: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = self.folder / ".fabric"
        self.project = self.folder / "project"
        self.project.mkdir(parents=True)
        self.elsewhere = self.folder / "elsewhere"
        self.elsewhere.mkdir()
        self.backups = self.folder / "backups-elsewhere"
        self.backups.mkdir()

    async def fill(self) -> None:
        records = open_records(self.root)
        await records.layout.prepare(OWN)
        (self.root / "runs" / OWN / "workspace" / "result.txt").write_text(MARKER)
        await records.snapshots_for(OWN).keep(page(), fetched_at=1.0)
        await self._drive(records, OWN, records.layout.workspace(OWN))
        await records.layout.prepare(HERE, at=str(self.project))
        (self.project / "kept.txt").write_text("before")
        (self.project / "large.txt").write_text("before" * 200_000)
        await self._drive(records, HERE, str(self.project))
        records.close()
        folder_backups(self.root).make_inside(by=owner_here(), workspaces=True)

    async def _drive(self, records: Records, run_id: RunId, workspace: str) -> None:
        body = RunCreated(
            prompt="work",
            specialist_id=None,
            model_key="quality",
            network_allowed=False,
            profile=Profile.TASK,
            budget=Budget.of(Profile.TASK),
            workspace=workspace,
            sandbox="C",
            policy_version="",
            fabric_version="",
        )
        held = await WatchedRuns(records.runs, records.layout).create(run_id, (Event(0, time.time(), None, "", body),))
        if workspace == str(self.project):
            (self.project / "kept.txt").write_text("after")
            (self.project / "large.txt").write_text("after" * 200_000)
        await held.append(log(completed(run_id), first=1))
        await held.release()

    def link(self, component: str, run_id: RunId) -> Path:
        """Move a component elsewhere and put a link in its place; a missing one becomes a link to an empty folder."""
        path = self.project if component == "PROJECT" else self.root / component.replace(RUN, run_id)
        target = self.elsewhere / "moved"
        if path.exists():
            path.rename(target)
        else:
            target.mkdir()
            path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        return target

    def behind(self) -> dict[str, tuple[int, bytes]]:
        """Return all that lies behind the link."""
        return {
            str(path.relative_to(self.elsewhere)): (
                path.lstat().st_mtime_ns,
                path.read_bytes() if path.is_file() else b"",
            )
            for path in sorted(self.elsewhere.rglob("*"))
        }


def page() -> Page:
    return Page(
        url="https://a.example/x",
        final_url="https://a.example/x",
        title="x",
        status=200,
        cut=False,
        content_type="text/plain",
        body=MARKER.encode(),
        text=MARKER,
    )


Do = Callable[[Records, Place, RunId], Awaitable[Any]]


async def start(records: Records, place: Place, run_id: RunId) -> object:
    return await records.layout.prepare(RandomIds().new_run_id())


async def resume(records: Records, place: Place, run_id: RunId) -> object:
    workspace = str(place.project) if run_id == HERE else records.layout.workspace(run_id)
    assert records.layout.usable(workspace) or True
    return await records.layout.prepare(run_id, at=str(place.project) if run_id == HERE else "")


async def take_up(records: Records, place: Place, run_id: RunId) -> object:
    held, _, _ = await WatchedRuns(records.runs, records.layout).take(run_id)
    await held.release()
    return None


async def diff(records: Records, place: Place, run_id: RunId) -> object:
    use = diff_run(records)
    found = await use(run_id)
    return [use.content(found, change) for change in found.changes]


async def undo(records: Records, place: Place, run_id: RunId) -> object:
    return await undo_run(records)(run_id, by="ada")


async def list_files(records: Records, place: Place, run_id: RunId) -> object:
    return await fetch_files(records).list(run_id)


async def open_file(records: Records, place: Place, run_id: RunId) -> object:
    opened = await fetch_files(records).open(run_id, "result.txt")
    with opened.file:
        return opened.file.read()


async def export(records: Records, place: Place, run_id: RunId) -> object:
    return JsonlRunLog(records.layout).export(run_id, await records.runs.read(run_id))


async def verify(records: Records, place: Place, run_id: RunId) -> object:
    return await verify_run(records)(run_id)


async def collect(records: Records, place: Place, run_id: RunId) -> object:
    done = await collect_garbage(records)(older_than_s=-10, by="ada")
    if done.refused:
        raise FolderLinked("; ".join(done.refused), hint="x")
    return done


async def backup(records: Records, place: Place, run_id: RunId) -> object:
    made = folder_backups(place.root).make(place.backups, by=owner_here(), workspaces=True, tell=lambda _: None)
    with tarfile.open(made.path) as archive:
        return [archive.extractfile(each).read() for each in archive if each.isreg() and each.name != "fabric.db"]  # type: ignore[union-attr]  # regular


async def backup_here(records: Records, place: Place, run_id: RunId) -> object:
    return folder_backups(place.root).make_inside(by=owner_here(), workspaces=False, kept=1)


async def list_backups(records: Records, place: Place, run_id: RunId) -> object:
    return folder_backups(place.root).inside()


async def keep_page(records: Records, place: Place, run_id: RunId) -> object:
    return await records.snapshots_for(run_id).keep(page(), fetched_at=2.0)


async def find_page(records: Records, place: Place, run_id: RunId) -> object:
    return await records.snapshots_for(run_id).find("https://a.example/x")


async def fork(records: Records, place: Place, run_id: RunId) -> object:
    await records.layout.copy(records.layout.workspace(run_id), RandomIds().new_run_id())
    return None


OBJECTS = {"changes", "changes/objects", "changes/objects/packs", "changes/folders"}
ANY_RUN = {"runs", f"runs/{RUN}"}
IN_RUNS = {f"runs/{RUN}/{name}" for name in ("workspace", "changes", "snapshots")}
OPERATIONS: dict[str, tuple[Do, set[str]]] = {
    "start": (start, {"runs"}),
    "resume": (resume, {*ANY_RUN, f"runs/{RUN}/workspace"}),
    "take up": (take_up, set()),
    "diff": (diff, {*ANY_RUN, *OBJECTS, f"runs/{RUN}/changes"}),
    "undo": (undo, {*ANY_RUN, *OBJECTS, f"runs/{RUN}/changes"}),
    "list files": (list_files, {*ANY_RUN, f"runs/{RUN}/workspace"}),
    "open file": (open_file, {*ANY_RUN, f"runs/{RUN}/workspace"}),
    "export": (export, {*ANY_RUN}),
    "verify": (verify, {*ANY_RUN, f"runs/{RUN}/workspace"}),
    "backup": (backup, {*ANY_RUN, *OBJECTS, *IN_RUNS}),
    "backup here": (backup_here, {"backups"}),
    "list backups": (list_backups, {"backups"}),
    "keep page": (keep_page, {*ANY_RUN, f"runs/{RUN}/snapshots"}),
    "find page": (find_page, {*ANY_RUN, f"runs/{RUN}/snapshots"}),
    "fork": (fork, {*ANY_RUN, f"runs/{RUN}/workspace"}),
    "collect garbage": (collect, {*ANY_RUN, *OBJECTS, *IN_RUNS}),  # last: it removes the runs
}
COMPONENTS = (
    "runs",
    f"runs/{RUN}",
    f"runs/{RUN}/workspace",
    f"runs/{RUN}/changes",
    f"runs/{RUN}/snapshots",
    f"runs/{RUN}/runlog.jsonl",
    "run_index.jsonl",
    *sorted(OBJECTS),
    "changes/locks",
    "backups",
)
OF_OWN_RUNS = {"list files", "open file", "keep page", "find page", "fork"}
"""Operations that mean nothing for a run in a project folder."""


def cases() -> Iterator[tuple[str, str, RunId]]:
    for component in COMPONENTS:
        for operation in OPERATIONS:
            for run_id in (OWN, HERE):
                if run_id == OWN or operation not in OF_OWN_RUNS:
                    yield component, operation, run_id


@pytest.mark.parametrize("run_id", [OWN, HERE])
@pytest.mark.parametrize("component", COMPONENTS)
async def test_nothing_behind_a_link_is_touched_by_any_operation(tmp_path: Path, component: str, run_id: RunId) -> None:
    place = Place(tmp_path)
    await place.fill()
    place.link(component, run_id)
    before = place.behind()
    for operation, (do, touches) in OPERATIONS.items():
        if (component, operation, run_id) not in set(cases()):
            continue
        records = open_records(place.root)
        refused: FabricError | None = None
        told: object = None
        try:
            told = await do(records, place, run_id)
        except FabricError as problem:
            refused = problem
        finally:
            records.close()
        assert place.behind() == before, f"{operation} touched what {component} leads to"
        assert not (refused is None and component in touches and MARKER in repr(told)), f"{operation} read it"
        if component in touches:
            assert isinstance(refused, FolderLinked), f"{operation} with {component}: {refused!r}, {told!r}"
            assert refused.hint
            assert "link" in refused.message


@pytest.mark.parametrize("operation", ["diff", "undo", "take up"])
async def test_a_project_folder_that_has_become_a_link_is_refused(tmp_path: Path, operation: str) -> None:
    place = Place(tmp_path)
    await place.fill()
    place.link("PROJECT", HERE)
    before = place.behind()
    records = open_records(place.root)
    try:
        if operation == "diff":  # what is recorded can be told without the folder, unless its contents are gone
            for path in (place.root / "changes" / "objects").rglob("*"):
                if path.is_file():
                    path.unlink()
        with pytest.raises(FolderLinked):
            await OPERATIONS[operation][0](records, place, HERE)
    finally:
        records.close()
    assert place.behind() == before


@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - {"take up"}))
async def test_without_links_every_operation_works(tmp_path: Path, operation: str) -> None:
    place = Place(tmp_path)
    await place.fill()
    records = open_records(place.root)
    try:
        await OPERATIONS[operation][0](records, place, OWN if operation in OF_OWN_RUNS else HERE)
    finally:
        records.close()


async def test_a_folder_that_is_swapped_while_its_run_goes_on_gets_no_log_file(tmp_path: Path) -> None:
    place = Place(tmp_path)
    await place.fill()
    records = open_records(place.root)
    run_id = RandomIds().new_run_id()
    await records.layout.prepare(run_id)
    held = await records.runs.create(run_id, await _first(records))
    place.link(f"runs/{RUN}", run_id)
    before = place.behind()
    await held.append(log(completed(run_id), first=1))
    await held.release()
    records.close()
    assert place.behind() == before


async def _first(records: Records) -> list[Event]:
    return [next(iter(await records.runs.read(OWN)))]
