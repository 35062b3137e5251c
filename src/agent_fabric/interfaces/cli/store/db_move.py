"""`fabric db migrate`, `fabric db keys` and `fabric db copy`: a store in PostgreSQL."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.bootstrap.records import copy_store, database_of, key_states, owner_here
from agent_fabric.domain.plural import counted
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.notices import Notices
from agent_fabric.interfaces.cli.options import configuration, require_a_person
from agent_fabric.interfaces.cli.output import plain, print_json, print_warning
from agent_fabric.interfaces.cli.place import Folder


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
    if at.as_json:
        print_json({"store": database.place, "before": done.before, "after": done.after})
    elif done.before == done.after:
        sys.stdout.write(f"{plain(database.place)} has format {done.after} already.\n")
    else:
        before = f"lifted from format {done.before} to" if done.before else "made, with format"
        sys.stdout.write(f"{plain(database.place)}: the tables were {before} {done.after}.\n")
    return COMPLETED


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
    if at.as_json:
        print_json([{"name": each.name, "here": each.own, "database": each.known or None} for each in states])
    else:
        widest = max(len(each.words) for each in states) + 2
        for each in states:
            told = "the same" if each.own == each.known else "another one" if each.known else "not known there yet"
            sys.stdout.write(f"{each.words:<{widest}}{each.own}  {told}\n")
    return COMPLETED if all(each.known in {"", each.own} for each in states) else FAILED


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
        f"{counted(done.runs, 'run')}, {counted(done.events, 'event')} and {counted(done.rows, 'row')} in all were "
        f"copied; {counted(done.chain_entries, 'entry', 'entries')} of the audit chain and every log were recomputed.\n"
        f"Not copied, because they stay in {plain(str(folder.absolute()))}: {', '.join(_NOT_COPIED)}.\n"
        "Its fabric.db is not used any more: keep it until you have looked around.\n"
    )
    if done.unknown_key:
        print_warning(f"{counted(done.unknown_key, 'entry', 'entries')} of the chain need a key that is not here.")
    for sentence in done.damage:
        print_warning(sentence)
    return COMPLETED


_NOT_COPIED = ("files of runs", "secrets", "configuration", "indexes of words, which the first search builds")
