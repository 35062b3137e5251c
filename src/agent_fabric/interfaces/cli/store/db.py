"""`fabric db`: the store itself."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_fabric.application.ports.vitals import StoreStatus
from agent_fabric.bootstrap.records import copy_store, database_of, folder_backups, key_states, owner_here, store_status
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.plural import count_of
from agent_fabric.interfaces.cli.durations import moment
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.notices import Notices
from agent_fabric.interfaces.cli.options import configuration, require_a_person
from agent_fabric.interfaces.cli.output import colour, plain, print_json, print_warning
from agent_fabric.interfaces.cli.place import Folder, Noun, Place, here, refuse_if, with_client
from agent_fabric.wire.operations import STORE
from agent_fabric.wire.shape import Json

app = new_app("Manage the store: status, backup, restore, PostgreSQL.")

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
    at.print(STORE.dump(found), _status_text(found))
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
    from agent_fabric.infrastructure.backup.folder_backups import keys_apart  # noqa: PLC0415 - status needs no backup

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
    sys.stdout.write(f"{plain(str(made.path))}: {count_of(made.files, 'file')}, {_size(made.size_bytes)}, checked.\n")
    if made.changed:
        files = count_of(len(made.changed), "file")
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
    sys.stdout.write(f"{plain(str(done.root))} is as it was on {made}: {count_of(len(done.manifest.files), 'file')}.\n")
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
    size = _size(float(made["size_bytes"]))
    return at.print(
        dict(made), f"At the server: {plain(str(made['path']))}: {count_of(made['files'], 'file')}, {size}, checked.\n"
    )


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


def _status_text(status: StoreStatus) -> str:
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
        mark = colour("✗", "red", sys.stdout) if status.damage else colour("✓", "green", sys.stdout)
        lines.append(f"{mark} {'; '.join(map(plain, status.damage)) or 'the file is whole'}\n")
    return "".join(lines)


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1_000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:.1f} {_UNITS[-1]}"


@app.command()
def migrate(*, at: Folder) -> int:
    """Make the tables in the PostgreSQL database of `store.url`, or lift them to this version.

    Run it before the first start and after an upgrade. A SQLite file needs it not: it is lifted when it is opened.

    Example: FABRIC_STORE__URL=postgresql://fabric@localhost/fabric fabric db migrate
    """
    require_a_person()
    root = at.root()
    database = database_of(root)
    if database is None:
        return at.print(
            {"store": str(root / "fabric.db"), "before": None, "after": None},
            f"The store is {plain(str(root / 'fabric.db'))}, which is lifted when it is opened. For PostgreSQL, "
            "set `store.url`.\n",
        )
    done = database.migrate()
    before = f"lifted from format {done.before} to" if done.before else "made, with format"
    same = f" has format {done.after} already.\n"
    return at.print(
        {"store": database.place, "before": done.before, "after": done.after},
        plain(database.place) + (same if done.before == done.after else f": the tables were {before} {done.after}.\n"),
    )


@app.command()
def keys(
    accept: Annotated[bool, typer.Option("--accept", help="Let the keys here count for all processes.")] = False,
    *,
    at: Folder,
) -> int:
    """Compare the keys of this process with those of the other processes of the database, by their fingerprints.

    A process with other keys refuses to start. After a change on purpose, --accept makes the others refuse until they
    have the new ones. Exit codes: 0 all are the same, 1 some differ.
    """
    root = at.root()
    if accept:
        require_a_person()
    states = key_states(root, configuration(root).config, accept=accept)
    widest, lines = max(len(each.words) for each in states) + 2, []
    for each in states:
        told = "the same" if each.own == each.known else "another one" if each.known else "not known there yet"
        lines.append(f"{each.words:<{widest}}{each.own}  {told}\n")
    value = [{"name": each.name, "here": each.own, "database": each.known or None} for each in states]
    at.print(value, "".join(lines))
    return COMPLETED if all(each.known in {"", each.own} for each in states) else FAILED


@app.command()
def copy(
    source: Annotated[str, typer.Option("--from", metavar="FOLDER", help="The fabric folder to copy.")],
    damaged: Annotated[bool, typer.Option("--damaged", help="Copy what is damaged as it is.")] = False,
    *,
    at: Folder,
) -> int:
    """Copy the store of a fabric folder into the empty PostgreSQL database of `store.url`, and check every hash there.

    Nothing may use the folder meanwhile. Either all of it is copied or nothing is; after an interruption, start over.
    The folder stays as it is, with the files of its runs, its secrets and its configuration.

    Example: fabric db copy --from .fabric
    """
    require_a_person()
    folder, root = Path(source).expanduser(), at.root()
    with Notices(shown=not at.as_json) as tell:
        done = copy_store(folder, root, by=owner_here(), damaged=damaged, tell=tell)
    if at.as_json:
        return print_json(
            {
                "from": str(folder.absolute()),
                "runs": done.runs,
                "events": done.events,
                "blobs": done.blobs,
                "tables": done.tables,
                "rows": done.rows,
                "chain_entries": done.chain_entries,
                "unknown_key": done.unknown_key,
                "damage": list(done.damage),
                "not_copied": list(_NOT_COPIED),
            }
        )
    sys.stdout.write(
        f"{count_of(done.runs, 'run')}, {count_of(done.events, 'event')} and {count_of(done.rows, 'row')} in all "
        f"were copied; {count_of(done.chain_entries, 'entry', 'entries')} of the audit chain and every log were "
        "recomputed.\n"
        f"Not copied, because they stay in {plain(str(folder.absolute()))}: {', '.join(_NOT_COPIED)}.\n"
        "Its fabric.db is not used any more: keep it until you have looked around.\n"
    )
    if done.unknown_key:
        print_warning(f"{count_of(done.unknown_key, 'entry', 'entries')} of the chain need a key that is not here.")
    for sentence in done.damage:
        print_warning(sentence)
    return COMPLETED


_NOT_COPIED = ("files of runs", "secrets", "configuration", "indexes of words, which the first search builds")
