"""`fabric db`: the store itself."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_fabric.application.ports.vitals import StoreStatus
from agent_fabric.bootstrap.records import folder_backups, owner_here, store_status
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.plural import counted
from agent_fabric.infrastructure.backup.folder_backups import keys_apart
from agent_fabric.interfaces.cli.durations import moment
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.notices import Notices
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain, print_json, print_warning, styled
from agent_fabric.interfaces.cli.place import Folder, Noun, Place, here, refuse_if, with_client
from agent_fabric.interfaces.cli.store.db_move import copy, keys, migrate
from agent_fabric.wire.operations import STORE
from agent_fabric.wire.shape import Json

app = new_app("Manage the store: status, backup, restore, PostgreSQL.")

app.command()(migrate)
app.command()(keys)
app.command()(copy)

_UNITS = ("B", "KB", "MB", "GB", "TB")


class _LocalStore:
    """The store of a fabric folder."""

    def __init__(self, at: Place) -> None:
        self._root = at.existing_root()

    async def status(self, *, check: bool) -> Json:
        return STORE.dump(await store_status(self._root, check=check))


_store = Noun(here(_LocalStore), lambda client: client.store)


@app.command()
def status(
    check: Annotated[bool, typer.Option("--check", help="Read the whole file and look for damage.")] = False,
    *,
    at: Place,
) -> int:
    """Show the size of the store, what is in it, and which processes use it.

    Exit codes: 0 all is well, 1 it is damaged.
    """
    found = STORE.load(_store(at, lambda store: store.status(check=check)))
    at.print(STORE.dump(found), _described(found))
    return FAILED if found.damage else COMPLETED


@app.command()
def backup(
    target: Annotated[
        str | None,
        typer.Argument(metavar="FILE|FOLDER", help="A new file, or a folder to put it into; not at a server."),
    ] = None,
    workspaces: Annotated[bool, typer.Option("--workspaces/--no-workspaces", help="Include the files of runs.")] = True,
    *,
    at: Place,
) -> int:
    """Put the store, settings and the files of runs into one file. The server and runs may keep working.

    Keys and the local token are never in it: keep a copy of the keys somewhere else. Secrets are in it as they are
    kept: sealed with a key. A server puts it into its own folder, `.fabric/backups`.
    """
    require_a_person()
    url = at.url()
    if url is not None:
        return _back_up_at(url, target, at, workspaces=workspaces)
    root = at.existing_root()
    with Notices(shown=not at.as_json) as tell:
        place = _backup_target(target or "")
        made = folder_backups(root).make(place, by=owner_here(), workspaces=workspaces, tell=tell)
    apart = keys_apart(root, os.environ)
    if at.as_json:
        return print_json(
            {
                "path": str(made.path),
                "size_bytes": made.size_bytes,
                "files": made.files,
                "workspaces": made.workspaces,
                "changed": list(made.changed),
                "not_included": apart,
                "seconds": round(made.seconds, 3),
            }
        )
    sys.stdout.write(f"{plain(str(made.path))}: {counted(made.files, 'file')}, {_size(made.size_bytes)}, checked.\n")
    if made.changed:
        files = counted(len(made.changed), "file")
        print_warning(f"{files} changed during the copy, or could not be read, {made.changed[0]} first.")
    if apart:
        print_warning(
            "these are NOT in the backup. Keep a copy of each in another place: without them, what is encrypted "
            "cannot be read, keys and tokens of users are void, and the record cannot be checked.\n"
            + "\n".join(f"  {path}" for path in apart)
        )
    return COMPLETED


@app.command(name="restore")
def restore_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that `fabric db backup` made.")],
    force: Annotated[bool, typer.Option("--force", help="Move what is there aside.")] = False,
    *,
    at: Folder,
) -> int:
    """Put a backup in the place of the fabric folder, after all of it has been checked.

    Nothing is deleted: what is there is moved aside, and a folder with runs only with --force.
    """
    require_a_person()
    with Notices(shown=not at.as_json) as tell:
        done = folder_backups(at.root()).restore(_path(file), by=owner_here(), force=force, tell=tell)
    if at.as_json:
        return print_json(
            {
                "restored": str(done.root),
                "files": len(done.manifest.files),
                "created_at": done.manifest.created_at,
                "workspaces": done.manifest.workspaces,
                "moved_aside": None if done.aside is None else str(done.aside),
                "trusted": done.manifest.ours,
            }
        )
    made = moment(done.manifest.created_at)
    sys.stdout.write(f"{plain(str(done.root))} is as it was on {made}: {counted(len(done.manifest.files), 'file')}.\n")
    if done.aside is not None:
        sys.stdout.write(f"What was there before is in {plain(str(done.aside))}.\n")
    if not done.manifest.ours:
        print_warning(
            "the backup was not made with your key, so nothing in it is obeyed yet. Look at its configuration; if it "
            "is as you want it: fabric config trust. Entries of the audit chain need the key that made them."
        )
    return COMPLETED


def _back_up_at(url: str, target: str | None, at: Place, *, workspaces: bool) -> int:
    refuse_if(target is not None, "A server puts backups into its own folder", hint="Do not name a file with --server.")
    made = with_client(url, lambda client: client.store.back_up(workspaces=workspaces))
    if at.as_json:
        return print_json(dict(made))
    size = _size(float(made["size_bytes"]))
    sys.stdout.write(f"At the server: {plain(str(made['path']))}: {counted(made['files'], 'file')}, {size}, checked.\n")
    return COMPLETED


def _backup_target(given: str) -> Path:
    """Return where a backup goes; a name with a slash at its end is a folder, and is made."""
    path = _path(given)
    if given.endswith("/"):
        try:
            path.mkdir(mode=0o700, exist_ok=True)
        except OSError as problem:
            reason = problem.strerror or str(problem)
            raise ConfigError(f"The folder {path} cannot be made: {reason}", hint="Choose another one.") from None
    return path


def _path(given: str) -> Path:
    if not given or "\0" in given:
        raise ConfigError("A file needs a name", hint="For example: fabric db backup backups/")
    return Path(given).expanduser()


def _described(status: StoreStatus) -> str:
    runs = ", ".join(f"{count} {name}" for name, count in status.runs.items() if count) or "none"
    beside = f" and {_size(status.wal_bytes)} of log, {_size(status.unused_bytes)} unused" if status.wal_bytes else ""
    rows: dict[str, Any] = {
        "store": plain(status.path),
        "format": status.format,
        "size": f"{_size(status.size_bytes)}{beside}",
        "disk": f"{_size(status.free_bytes)} free",
        "runs": runs,
        "events": status.events,
        "blobs": status.blobs,
        "oldest run": "-" if status.oldest_run_at is None else moment(status.oldest_run_at),
        "server": "holds it" if status.served else "none",
    }
    lines = [f"{name:<11}{value}\n" for name, value in rows.items()]
    if status.damage is not None:
        mark = styled("✗", "red", sys.stdout) if status.damage else styled("✓", "green", sys.stdout)
        lines.append(f"{mark} {'; '.join(map(plain, status.damage)) or 'the file is whole'}\n")
    return "".join(lines)


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1_000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:.1f} {_UNITS[-1]}"
