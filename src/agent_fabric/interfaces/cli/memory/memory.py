"""`fabric memory`: documents and facts that agents look up."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_fabric.domain.errors import ConfigError, MemoryNotFound
from agent_fabric.domain.memory.documents import UNENCRYPTED
from agent_fabric.domain.memory.facts import FactStatus
from agent_fabric.interfaces.cli.durations import moment
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.memory.local_memory import (
    MEMORY,
    LocalMemory,
    MemoryAccess,
    is_page,
    warn_if_unencrypted,
)
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import (
    for_this_installation,
    plain,
    plain_lines,
    print_json,
    print_warning,
    shorten,
    terminal_columns,
    write_export,
)
from agent_fabric.interfaces.cli.place import Place, PlainPlace, refuse_if
from agent_fabric.wire.shape import Json

app = new_app("Look after documents and facts: add, list, show, search, review, edit, forget, why, export, import.")

BY_WORDS_ONLY = "It was searched by words only; for meaning: pip install 'agent-fabric[embeddings]'"
FactArgument = Annotated[str, typer.Argument(metavar="ID", help="The id, or its beginning.")]
Labels = Annotated[
    list[str] | None, typer.Option("--label", "-l", metavar="LABEL", help="A label of documents. Repeatable.")
]


@app.command()
def add(
    what: Annotated[
        list[str],
        typer.Argument(metavar="PATH|URL", help="Files, folders or pages; with --fact, a sentence to remember."),
    ],
    label: Labels = None,
    team: Annotated[bool, typer.Option("--team", help="Let everyone find the document.")] = False,
    fact: Annotated[bool, typer.Option("--fact", help="Remember a sentence instead of a file.")] = False,
    preference: Annotated[bool, typer.Option("--preference", help="The same, and it does not expire.")] = False,
    pin: Annotated[bool, typer.Option("--pin", help="Tell it to agents without being asked.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Of a folder: erase documents whose files are gone.")] = False,
    *,
    at: Place,
) -> int:
    """Add documents, or with --fact something to remember.

    A file that was added before is brought up to date: only what has changed is read again. Folders, pages and several
    files are added by a run, which can be resumed.

    Exit codes: 0 added, 1 failed, 2 it cannot be read, or the fact is refused.
    """
    require_a_person()
    is_fact = fact or preference
    refuse_if(is_fact and (bool(label) or team), "Facts have no labels", hint="Leave out --label and --team.")
    refuse_if(pin and not is_fact, "Only facts are pinned", hint="Add --fact, or leave out --pin.")

    path = Path(what[0]).expanduser().absolute()
    many = not is_fact and (len(what) > 1 or is_page(what[0]) or path.is_dir())
    refuse_if(prune and (len(what) > 1 or not path.is_dir()), "--prune is for one folder", hint="Leave it out.")
    if many:
        return _add_many(at, what, label or (), team=team, prune=prune)

    if is_fact:
        kind, text = "preference" if preference else "fact", " ".join(what)
        made = MEMORY(at, lambda memory: memory.remember(text, kind=kind, pinned=pin))
    else:
        data, visibility = _read(path), "team" if team else "private"
        made = MEMORY(at, lambda memory: memory.add(str(path), data, labels=label or [], visibility=visibility))
    warn_if_unencrypted(at)
    return at.print(made, _fact_line(made) if is_fact else _document_line(made))


def _add_many(at: Place, what: Sequence[str], labels: Sequence[str], *, team: bool, prune: bool) -> int:
    from agent_fabric.interfaces.cli.memory.ingest import ingest, sources_of  # noqa: PLC0415 - what drives runs takes its time

    done = ingest(at, sources_of(what, labels, team=team, prune=prune))
    warn_if_unencrypted(at)
    if at.as_json:
        return print_json(done)
    sys.stdout.write(f"{len(done['added']):,} added or up to date\n")
    sys.stdout.writelines(f"  {plain(each['source'])}: {plain(each['problem'])}\n" for each in done["problems"])
    notes = [(each["source"], note) for each in done["added"] for note in each.get("notes", ())]
    if any(note == UNENCRYPTED for _, note in notes):
        print_warning(UNENCRYPTED)  # once, however many a server has said it of
    sys.stdout.writelines(f"  {plain(source)}: {plain(note)}\n" for source, note in notes if note != UNENCRYPTED)
    for each in done["gone"]:
        sys.stdout.write(f"  {'erased' if done['pruned'] else 'its file is gone'}: {plain(each['source'])}\n")
    if done["gone"] and not done["pruned"]:
        sys.stderr.write("  hint: --prune erases them\n")
    if done["status"] == "waiting":
        sys.stderr.write(f"It waits for an answer: fabric approvals list, then fabric resume {done['run_id']}\n")
    return COMPLETED


@app.command("list")
def list_(
    documents: Annotated[bool, typer.Option("--documents", help="List documents instead of facts.")] = False,
    status: Annotated[FactStatus | None, typer.Option("--status", help="Only facts of this status.")] = None,
    *,
    at: Place,
) -> int:
    """List facts, the newest first, or documents."""
    wanted = "" if status is None else status.value
    found = MEMORY(at, lambda memory: memory.documents() if documents else memory.facts(wanted))
    none = f"There are no {'documents' if documents else 'facts'} yet. Add one: fabric memory add\n"
    text = "".join(map(_document_line if documents else _fact_line, found))
    return at.print(found, text, note="" if found else none)


@app.command()
def show(item: FactArgument, *, at: Place) -> int:
    """Show a document with its text, or a fact with where it comes from."""

    async def go(memory: MemoryAccess) -> Json:
        try:
            return await memory.document(item)
        except MemoryNotFound as problem:
            try:
                return await memory.why(item)
            except MemoryNotFound:
                raise MemoryNotFound(
                    f"There is no document or fact {item!r}",
                    hint="See `fabric memory list`, with --documents for these.",
                ) from problem

    found = MEMORY(at, go)
    if "source_quote" in found:
        return at.print(found, _history(found))
    return at.print(found, _document_line(found) + plain_lines(str(found["text"])) + "\n")


@app.command()
def search(
    question: Annotated[list[str], typer.Argument(metavar="QUERY", help="A question, or a few words.")],
    limit: Annotated[int, typer.Option(min=1, max=50, help="Most passages to show.")] = 6,
    label: Labels = None,
    *,
    at: Place,
) -> int:
    """Search documents and facts, the best first. Nothing is shown that does not fit well enough."""

    async def go(memory: MemoryAccess) -> tuple[Sequence[Json], bool]:
        found = await memory.search(" ".join(question), limit=limit, labels=label or ())
        return found, not found and isinstance(memory, LocalMemory) and memory.searches_words_only

    found, words_only = MEMORY(at, go)
    note = "" if found else "Memory has nothing about this.\n"
    if words_only:
        note += for_this_installation(BY_WORDS_ONLY) + "\n"
    return at.print(found, "".join(map(_hit, found)), note=note)


@app.command()
def review(
    accept: Annotated[str | None, typer.Option(metavar="ID", help="Accept this proposal.")] = None,
    replaces: Annotated[str, typer.Option(metavar="ID", help="The fact that it replaces.")] = "",
    reject: Annotated[str | None, typer.Option(metavar="ID", help="Reject this proposal.")] = None,
    confirm: Annotated[str | None, typer.Option(metavar="ID", help="Say that this fact still holds.")] = None,
    *,
    at: Place,
) -> int:
    """Show what runs propose to remember, with quote and source; accept or reject it."""
    decisions = {"accept": accept, "reject": reject, "confirm": confirm}
    asked = [each for each in decisions.values() if each is not None]
    refuse_if(len(asked) > 1, "Decide one fact at a time", hint="Give one of --accept, --reject and --confirm.")
    refuse_if(bool(replaces) and accept is None, "--replaces needs --accept", hint="Say which proposal replaces it.")
    if asked:
        require_a_person()

    async def go(memory: MemoryAccess) -> Sequence[Json]:
        for decision, fact in decisions.items():
            if fact is not None:
                return [await memory.review(fact, decision, replaces=replaces)]
        return await memory.facts(FactStatus.PROPOSED.value)

    found = MEMORY(at, go)
    text = "".join(map(_fact_line if asked else _card, found))
    return at.print(found, text, note="" if found else "Nothing waits for a review.\n")


@app.command()
def edit(
    fact: FactArgument,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="What is remembered instead.")] = None,
    pin: Annotated[
        bool | None, typer.Option("--pin/--unpin", help="Tell it to agents without being asked, or no longer.")
    ] = None,
    *,
    at: Place,
) -> int:
    """Replace a fact by a new one, or pin it. The old one stays, with the time until which it held."""
    require_a_person()
    refuse_if(text is None and pin is None, "There is nothing to change", hint="Give TEXT, --pin or --unpin.")
    changes = {name: value for name, value in (("text", text), ("pinned", pin)) if value is not None}
    changed = MEMORY(at, lambda memory: memory.change(fact, changes))
    return at.print(changed, _fact_line(changed))


@app.command()
def forget(
    what: FactArgument,
    erase: Annotated[bool, typer.Option("--erase", help="Remove it from the store instead of retiring it.")] = False,
    document: Annotated[
        bool, typer.Option("--document", help="A document: text, words and vectors are erased.")
    ] = False,
    runs: Annotated[bool, typer.Option("--runs", help="Also delete your runs whose logs still hold it.")] = False,
    *,
    at: Place,
) -> int:
    """Retire a fact, erase it, or erase a document; say what rests on it and where it still stands."""
    require_a_person()
    refuse_if(runs and not (erase or document), "--runs is for what is erased", hint="Add --erase.")

    async def go(memory: MemoryAccess) -> Json:
        if document:
            return await memory.erase_document(what, runs=runs)
        try:
            return await memory.forget(what, erase=erase, runs=runs)
        except MemoryNotFound as problem:
            with suppress(MemoryNotFound):
                title = (await memory.document(what))["title"]
                problem.hint = f"It is a document, {plain(str(title))!r}: to erase it, add --document."
            raise

    done = MEMORY(at, go)
    if at.as_json:
        return print_json(done)
    sys.stdout.write(f"{done['id']} {done['status']}\n")
    sys.stdout.writelines(f"  influenced the answer of run {use['run_id']}\n" for use in done["influenced"])
    sys.stdout.writelines(f"  deleted run {run_id}, which held it\n" for run_id in done["removed"])
    sys.stdout.writelines(f"  still stands in the log of run {run_id}\n" for run_id in done["logs"])
    sys.stdout.writelines(f"  messages of session {each} may hold it\n" for each in done["sessions"])
    sys.stdout.writelines(f"  {plain(note)}\n" for note in done["notes"])
    if done["sessions"]:
        sys.stderr.write("  hint: delete these sessions with their runs: fabric sessions delete ID\n")
    if done["logs"] and not runs:
        sys.stderr.write("  hint: --runs deletes runs with what is erased; or later: fabric gc --older-than AGE\n")
    return COMPLETED


@app.command()
def why(fact: FactArgument, *, at: Place) -> int:
    """Say where a fact comes from, who agreed to it, and which answers used it."""
    found = MEMORY(at, lambda memory: memory.why(fact))
    return at.print(found, _history(found))


@app.command()
def export(
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")] = None,
    *,
    at: PlainPlace,
) -> int:
    """Write all facts as Markdown that can be read and imported again."""
    text = MEMORY(at, lambda memory: memory.export())
    if output is None:
        sys.stdout.write(text)
    else:
        write_export(output, text)
    return COMPLETED


@app.command("import")
def import_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="What `fabric memory export` has written.")],
    accept: Annotated[
        bool, typer.Option("--accept", help="Use facts that were in use, instead of reviewing them again.")
    ] = False,
    *,
    at: Place,
) -> int:
    """Import facts. What was in use waits for a review, unless you vouch for the file with --accept."""
    require_a_person()
    refuse_if(not path.is_file(), f"{path} is no file", hint="Name a file that exists.")
    text = path.read_text(encoding="utf-8", errors="replace")
    made = MEMORY(at, lambda memory: memory.import_(text, source=path.name, accept=accept))
    left_out = (
        f"{each['id']}  left out  {plain(str(each['text']))}\n  {plain(str(each['reason']))}\n"
        for each in made["left_out"]
    )
    text = "".join([*map(_fact_line, made["facts"]), *left_out])
    return at.print(made, text, note="" if text else "There are no facts in it.\n")


def _read(path: Path) -> bytes:
    from agent_fabric.infrastructure.memory.local_documents import read_local_document  # noqa: PLC0415 - one command reads

    try:
        return read_local_document(path)
    except OSError as problem:
        raise ConfigError(
            f"{path} cannot be read: {problem.strerror or problem}", hint="Name a file that exists."
        ) from problem


def _document_line(found: Json) -> str:
    notes = "".join(f"\n  {plain(note)}" for note in found["notes"])
    return f"{found['id']}  {plain(str(found['title']))}  ({plain(str(found['standing']))}){notes}\n"


def _fact_line(found: Json) -> str:
    pinned = " pinned" if found["pinned"] else ""
    text = plain(str(found["text"])) or "(encrypted; its key is not here)"
    return f"{found['id']}  {found['status']}{pinned}  {text}\n"


def _card(found: Json) -> str:
    lines = [_fact_line(found)]
    if found["source_quote"]:
        lines.append(f"  “{plain(str(found['source_quote']))}”\n")
    lines.append(f"  said by {plain(str(found['said_by']) or 'nobody')}")
    lines.append(f" in run {found['source_run']}, event {found['source_seq']}\n" if found["source_run"] else "\n")
    lines += [f"  the run had read {plain(str(source))}\n" for source in found["untrusted"]]
    return "".join(lines)


def _history(found: Json) -> str:
    lines = [_card(found)]
    if found["reviewed_by"]:
        lines.append(f"  reviewed by {plain(found['reviewed_by'])}\n")
    moments = (("remembered since", "created_at"), ("held until", "valid_to"), ("expires", "expires_at"))
    known = [
        (words, name)
        for words, name in moments
        if found[name] and (name != "expires_at" or found["status"] == "active")
    ]
    lines += [f"  {words} {moment(found[name])}\n" for words, name in known]
    others = (("replaces", "supersedes"), ("replaced by", "superseded_by"))
    lines += [f"  {words} {found[name]}\n" for words, name in others if found[name]]
    lines += [f"  contradicts {each['id']}: {plain(each['text'])}\n" for each in found["contradicts"]]
    lines += [f"  {'cited' if use['cited'] else 'told'} in run {use['run_id']}\n" for use in found["uses"]]
    return "".join(lines)


def _hit(found: Json) -> str:
    if found["fact"]:
        return f"{found['score']:.2f}  [m:{found['fact']}] {plain(str(found['passage']))}\n"
    title, headings = str(found["title"]), [*map(str, found["headings"])]
    place = " › ".join(headings if headings[:1] == [title] else [title, *headings])
    text: Any = " ".join(str(found["passage"]).split())
    return f"{found['score']:.2f}  {plain(place)}\n      {plain(shorten(text, max(40, 3 * terminal_columns())))}\n"
