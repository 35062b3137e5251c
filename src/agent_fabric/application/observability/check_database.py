"""Whether a database server is fit to hold runs."""

from collections.abc import Callable, Iterator

from agent_fabric.application.ports.database import DatabaseFacts, DatabaseUpkeep
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.observability.findings import HealthFinding, Level
from agent_fabric.domain.plural import count_of

ABOUT = "store"
MIN_PGVECTOR = "0.7"
"""What compares the vectors of documents: the first version with numbers of two bytes."""
_WITHOUT = "without pgvector, so each process reads and compares vectors itself"
_ACKNOWLEDGED_EARLY = {
    "off": "a commit counts before it is on the disk, so a crash of the server loses the last ones",
    "local": "a commit counts before a standby has it, so a failover loses the last ones",
}


def examine_database(upkeep: Callable[[], DatabaseUpkeep | None], *, pool: int) -> list[HealthFinding]:
    """Tell whether a database can hold runs; nothing if there is none."""
    try:
        database = upkeep()
        return [] if database is None else check_database(database.examine(), pool=pool)
    except FabricError as problem:
        return [HealthFinding(about=ABOUT, level=Level.FAIL, text=problem.message, fix=problem.hint)]


def check_database(facts: DatabaseFacts, *, pool: int) -> list[HealthFinding]:
    """Judge what a server says about itself; `pool` is how many connections each process may open."""
    fatal = _fatal(facts)
    if fatal is not None:
        return [fatal]
    good = f"{facts.place}: PostgreSQL {facts.version}, format {facts.format}, {_vectors(facts)}"
    return [HealthFinding(about=ABOUT, level=Level.OK, text=good), *_warnings(facts, pool)]


def _vectors(facts: DatabaseFacts) -> str:
    if facts.has_vectors and facts.has_passage_vectors:
        return f"vectors by pgvector {facts.pgvector}"
    if facts.has_vectors:
        return (
            f"vectors of runs by pgvector {facts.pgvector}, those of documents by each process"
            f" (pgvector {MIN_PGVECTOR} or newer can compare them: ALTER EXTENSION vector UPDATE,"
            " then: fabric db migrate)"
        )
    if facts.offers_vectors:
        return f"{_WITHOUT} (an administrator runs CREATE EXTENSION vector, then: fabric db migrate)"
    return f"{_WITHOUT} (install it on the server, then: fabric db migrate)"


def _fatal(facts: DatabaseFacts) -> HealthFinding | None:
    match facts:
        case DatabaseFacts(encoding=encoding) if encoding != "UTF8":
            text = f"stores text as {encoding}, and only UTF-8 holds all of it"
            fix = "Create the database with: createdb --encoding UTF8 --template template0"
        case DatabaseFacts(is_standby=True):
            text, fix = "is a standby, which cannot be written", "Let `store.url` name the primary server."
        case DatabaseFacts(format=0):
            text, fix = "has no tables yet", "fabric db migrate"
        case DatabaseFacts() if facts.format < facts.known_format:
            text = f"has format {facts.format}; this program needs {facts.known_format}"
            fix = "fabric db migrate"
        case DatabaseFacts() if facts.min_writer > facts.known_format:
            text = f"was written by a newer agent-fabric (format {facts.format}; this one knows {facts.known_format})"
            fix = "Upgrade agent-fabric."
        case _:
            return None
    return HealthFinding(about=ABOUT, level=Level.FAIL, text=f"{facts.place} {text}", fix=fix)


def _warnings(facts: DatabaseFacts, pool: int) -> Iterator[HealthFinding]:
    def warning(text: str, fix: str) -> HealthFinding:
        return HealthFinding(about=ABOUT, level=Level.WARN, text=text, fix=fix)

    if facts.format > facts.known_format:
        yield warning(
            f"a newer agent-fabric has lifted the tables to format {facts.format}; this one knows {facts.known_format}",
            "Upgrade agent-fabric here, too: this version goes on only until the next change of the tables.",
        )
    if not facts.fsync:
        yield warning("fsync is off, so a crash of the server loses or damages what is stored", "Set fsync = on.")
    early = _ACKNOWLEDGED_EARLY.get(facts.synchronous_commit)
    if early:
        yield warning(f"synchronous_commit is {facts.synchronous_commit}: {early}", "Set synchronous_commit = on.")
    if facts.asynchronous_standbys:
        yield warning(
            f"{count_of(facts.asynchronous_standbys, 'standby', 'standbys')} may lag behind: after a failover, runs "
            "whose last commits are lost stop with `log_went_back`",
            "Name them in synchronous_standby_names, or accept it.",
        )
    if pool > facts.max_connections:
        yield warning(
            f"`store.pool` is {pool}, but the server admits {count_of(facts.max_connections, 'connection')}",
            "Lower `store.pool`, raise max_connections, or put pgbouncer in front of it.",
        )
    elif pool * 2 > facts.max_connections:
        yield warning(
            f"one process may use {pool} of {facts.max_connections} connections, so there is no room for a second one",
            "Lower `store.pool`, raise max_connections, or put pgbouncer in front of it.",
        )
