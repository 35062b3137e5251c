"""`fabric memory`: documents and facts that agents look up."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_fabric.domain.errors import MemoryNotFound
from agent_fabric.domain.memory.documents import UNENCRYPTED
from agent_fabric.domain.memory.facts import FactStatus
from agent_fabric.interfaces.cli.durations import moment
from agent_fabric.interfaces.cli.exports import write_export
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.memory.memory_ingest import Sources, ingest, is_page, sources_of
from agent_fabric.interfaces.cli.memory.memory_places import MemoryAccess, at_memory, warn_if_unencrypted
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import (
    plain,
    plain_lines,
    print_json,
    print_warning,
    shortened,
    terminal_columns,
)
from agent_fabric.interfaces.cli.place import Place, PlainPlace, refuse_if
from agent_fabric.wire.shape import Json

app = new_app("Look after documents and facts: add, list, show, search, review, edit, forget, why, export, import.")

FactArgument = Annotated[str, typer.Argument(metavar="ID", help="The id, or its beginning.")]
Labels = Annotated[
    list[str] | None, typer.Option("--label", "-l", metavar="LABEL", help="A label of documents. Repeatable.")
]


@app.command()
def add(
    what: Annotated[
        str, typer.Argument(metavar="PATH|URL", help="A file, a folder or a page; with --fact, a sentence to remember.")
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
    """Add a document, or with --fact something to remember.

    A file that was added before is brought up to date: only what has changed is read again. A folder or a page is added
    by a run, which can be resumed.

    Exit codes: 0 added, 1 failed, 2 it cannot be read, or the fact is refused.
    """
    require_a_person()
    is_fact = fact or preference
    refuse_if(is_fact and (bool(label) or team), "Facts have no labels", hint="Leave out --label and --team.")
    refuse_if(pin and not is_fact, "Only facts are pinned", hint="Add --fact, or leave out --pin.")

    path = Path(what).expanduser().absolute()
    many = not is_fact and (is_page(what) or path.is_dir())
    refuse_if(prune and not (many and path.is_dir()), "--prune is for folders", hint="Leave it out.")
    if many:
        return _add_many(at, sources_of(what, label or (), team=team, prune=prune), as_json=at.as_json)

    async def go(memory: MemoryAccess) -> Json:
        if is_fact:
            return await memory.remember(what, preference=preference, pinned=pin)
        return await memory.add(path, label or (), _print_progress, team=team)

    made = at_memory(at, go)
    warn_if_unencrypted(at)
    return at.print(made, _fact_line(made) if is_fact else _document_line(made))


def _add_many(at: Place, sources: Sources, *, as_json: bool) -> int:
    done = ingest(at, sources)
    warn_if_unencrypted(at)
    if as_json:
        print_json(done)
        return COMPLETED
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

    async def go(memory: MemoryAccess) -> Sequence[Json]:
        return await (memory.documents() if documents else memory.facts([] if status is None else [status]))

    found = at_memory(at, go)
    if at.as_json:
        return print_json(found)
    sys.stdout.writelines(map(_document_line if documents else _fact_line, found))
    if not found:
        sys.stderr.write(f"There are no {'documents' if documents else 'facts'} yet. Add one: fabric memory add\n")
    return COMPLETED


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

    found = at_memory(at, go)
    if at.as_json:
        print_json(found)
    elif "source_quote" in found:
        sys.stdout.write(_history(found))
    else:
        sys.stdout.write(_document_line(found) + plain_lines(str(found["text"])) + "\n")
    return COMPLETED


@app.command()
def search(
    question: Annotated[list[str], typer.Argument(metavar="QUERY", help="A question, or a few words.")],
    limit: Annotated[int, typer.Option(min=1, max=50, help="Most passages to show.")] = 6,
    label: Labels = None,
    *,
    at: Place,
) -> int:
    """Search documents and facts, the best first. Nothing is shown that does not fit well enough."""

    async def go(memory: MemoryAccess) -> Sequence[Json]:
        return await memory.search(" ".join(question), label or (), limit=limit)

    found = at_memory(at, go)
    if at.as_json:
        return print_json(found)
    sys.stdout.writelines(map(_hit, found))
    if not found:
        sys.stderr.write("Memory has nothing about this.\n")
    return COMPLETED


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
    asked = [each for each in (accept, reject, confirm) if each is not None]
    refuse_if(len(asked) > 1, "Decide one fact at a time", hint="Give one of --accept, --reject and --confirm.")
    refuse_if(bool(replaces) and accept is None, "--replaces needs --accept", hint="Say which proposal replaces it.")
    if asked:
        require_a_person()

    async def go(memory: MemoryAccess) -> Sequence[Json]:
        if accept is not None:
            return [await memory.accept(accept, replaces)]
        if reject is not None:
            return [await memory.reject(reject)]
        if confirm is not None:
            return [await memory.confirm(confirm)]
        return await memory.facts([FactStatus.PROPOSED])

    found = at_memory(at, go)
    if at.as_json:
        return print_json(found)
    sys.stdout.writelines(map(_fact_line if asked else _card, found))
    if not found:
        sys.stderr.write("Nothing waits for a review.\n")
    return COMPLETED


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
    changed = at_memory(at, lambda memory: memory.edit(fact, text, pin))
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
            return await memory.forget_document(what, runs=runs)
        try:
            return await memory.forget(what, erase=erase, runs=runs)
        except MemoryNotFound as problem:
            with suppress(MemoryNotFound):
                title = (await memory.document(what))["title"]
                problem.hint = f"It is a document, {plain(str(title))!r}: to erase it, add --document."
            raise

    done = at_memory(at, go)
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
    found = at_memory(at, lambda memory: memory.why(fact))
    if at.as_json:
        return print_json(found)
    sys.stdout.write(_history(found))
    return COMPLETED


@app.command()
def export(
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")] = None,
    *,
    at: PlainPlace,
) -> int:
    """Write all facts as Markdown that can be read and imported again."""
    text = at_memory(at, lambda memory: memory.export())
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
    made = at_memory(at, lambda memory: memory.import_(text, path.name, accept=accept))
    if at.as_json:
        return print_json(made)
    sys.stdout.writelines(map(_fact_line, made["facts"]))
    for each in made["left_out"]:
        sys.stdout.write(f"{each['id']}  left out  {plain(str(each['text']))}\n  {plain(str(each['reason']))}\n")
    if not made["facts"] and not made["left_out"]:
        sys.stderr.write("There are no facts in it.\n")
    return COMPLETED


def _print_progress(done: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done:,} passages read")
        sys.stderr.flush()


def _document_line(shown: Json) -> str:
    notes = "".join(f"\n  {plain(note)}" for note in shown["notes"])
    return f"{shown['id']}  {plain(str(shown['title']))}  ({plain(str(shown['standing']))}){notes}\n"


def _fact_line(shown: Json) -> str:
    pinned = " pinned" if shown["pinned"] else ""
    text = plain(str(shown["text"])) or "(encrypted; its key is not here)"
    return f"{shown['id']}  {shown['status']}{pinned}  {text}\n"


def _card(shown: Json) -> str:
    lines = [_fact_line(shown)]
    if shown["source_quote"]:
        lines.append(f"  “{plain(str(shown['source_quote']))}”\n")
    lines.append(f"  said by {plain(str(shown['said_by']) or 'nobody')}")
    lines.append(f" in run {shown['source_run']}, event {shown['source_seq']}\n" if shown["source_run"] else "\n")
    lines += [f"  the run had read {plain(str(source))}\n" for source in shown["untrusted"]]
    return "".join(lines)


def _history(shown: Json) -> str:
    lines = [_card(shown)]
    if shown["reviewed_by"]:
        lines.append(f"  reviewed by {plain(shown['reviewed_by'])}\n")
    moments = (("remembered since", "created_at"), ("held until", "valid_to"), ("expires", "expires_at"))
    known = [
        (words, name)
        for words, name in moments
        if shown[name] and (name != "expires_at" or shown["status"] == "active")
    ]
    lines += [f"  {words} {moment(shown[name])}\n" for words, name in known]
    others = (("replaces", "supersedes"), ("replaced by", "superseded_by"))
    lines += [f"  {words} {shown[name]}\n" for words, name in others if shown[name]]
    lines += [f"  contradicts {each['id']}: {plain(each['text'])}\n" for each in shown["contradicts"]]
    lines += [f"  {'cited' if use['cited'] else 'told'} in run {use['run_id']}\n" for use in shown["uses"]]
    return "".join(lines)


def _hit(shown: Json) -> str:
    if shown["fact"]:
        return f"{shown['score']:.2f}  [m:{shown['fact']}] {plain(str(shown['passage']))}\n"
    title, headings = str(shown["title"]), [*map(str, shown["headings"])]
    place = " › ".join(headings if headings[:1] == [title] else [title, *headings])
    text: Any = " ".join(str(shown["passage"]).split())
    return f"{shown['score']:.2f}  {plain(place)}\n      {plain(shortened(text, max(40, 3 * terminal_columns())))}\n"
