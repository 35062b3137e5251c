"""Documents and facts: add, search, review, explain, forget."""

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal, assert_never

from fastapi import Path, Query, Request
from pydantic import Field, StringConstraints
from starlette.responses import Response

from agent_fabric.application.ports.memory import MAX_FACTS, DocumentQuery, FactQuery, NewDocument
from agent_fabric.bootstrap.memory import ServedMemory, ingestion_task
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.errors import DocumentUnreadable, Forbidden, InvalidInputs
from agent_fabric.domain.identity.ownership import Viewer, Visibility, owner_of
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.memory.documents import UNENCRYPTED, Document, DocumentState, accept_labels
from agent_fabric.domain.memory.facts import Fact, FactKind, FactStatus
from agent_fabric.domain.memory.ingestion import outcome_of
from agent_fabric.domain.memory.markdown import export_facts
from agent_fabric.domain.memory.passages import Passage
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import RequestBody
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openapi import gives
from agent_fabric.interfaces.http.routing import Answerer, Routes
from agent_fabric.interfaces.http.runs.runs import Flag
from agent_fabric.interfaces.http.runs.starting import start_for, wait_for_result
from agent_fabric.wire import memory as wire
from agent_fabric.wire.runs import STATUS

Label = Annotated[str, StringConstraints(min_length=1, max_length=40)]
Sentence = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
FactPrefix = Annotated[str, StringConstraints(min_length=1, max_length=12)]


class DocumentRequest(RequestBody, example={"source": "handbook.md", "text": "# Handbook"}):
    """A document to add: its text, its bytes, or its address."""

    source: Annotated[str, StringConstraints(min_length=1, max_length=1_000)] | None = None
    """Its name, path or address: adding something else from the same source replaces it. Not with `url`."""
    url: Annotated[str, StringConstraints(min_length=1, max_length=2_000)] | None = None
    """A page that a run fetches and adds, as far as the policy lets it; instead of the others."""
    text: str | None = None
    """What stands in it."""
    content: str | None = None
    """Its bytes in Base64, instead of `text`."""
    media_type: Annotated[str, StringConstraints(max_length=200)] | None = None
    """Such as `text/html`; not set: its name and its bytes tell."""
    labels: Annotated[list[Label], Field(max_length=20)] | None = None
    """By which a search can be narrowed."""
    visibility: Literal["private", "team"] | None = None
    """Who finds it beside its owner; not set: no one."""


class FactRequest(RequestBody, example={"text": "The pool opens at 9"}):
    """A fact to remember."""

    text: Sentence
    kind: Literal["fact", "preference"] | None = None
    """Preferences do not expire; not set: `fact`."""
    pinned: bool = False
    """Whether agents are told it without looking it up."""


class FactChange(RequestBody, example={"text": "The pool opens at 10"}):
    """What is to be different."""

    text: Sentence | None = None
    """A new fact, which replaces the old one."""
    pinned: bool | None = None


class FactsImport(RequestBody, example={"text": "# Memory\n", "source": "facts.md"}):
    """Facts that were exported."""

    text: str
    """What the export has written."""
    source: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The name of the file, which cards show; not set: `an import`."""
    accept: bool = False
    """Whether to use facts that were in use, instead of reviewing them again: who asks vouches for the file."""


class FactReview(RequestBody, example={"decision": "accept"}):
    """What a person thinks of a fact."""

    decision: Literal["accept", "reject", "confirm"]
    """`confirm` says of a fact in use that it still holds."""
    replaces: FactPrefix | None = None
    """The fact that an accepted one replaces."""


DOCUMENTS_BASE = "/api/v1/documents"
FACTS_BASE = "/api/v1/memory/facts"
ONE_DOCUMENT = f"{DOCUMENTS_BASE}/{{document_id}}"
DocumentPath = Annotated[str, Path(max_length=16, description="The id of a document, or the beginning of it.")]
FactPath = Annotated[str, Path(max_length=12, description="The id of a fact, or the beginning of it.")]
Question = Annotated[str, Query(min_length=1, max_length=2_000, description="A question, or a few words.")]
Earlier = Annotated[str, Query(max_length=2_000, description="The question before, which this one follows up.")]
Passages = Annotated[int, Query(ge=1, le=50, description="Most passages to show.")]
LabelFilter = Annotated[str, Query(max_length=1_000, description="Only documents with one of these, comma-separated.")]
First = Annotated[int, Query(ge=0, le=1_000_000, description="The number of the first passage.")]
Last = Annotated[int | None, Query(ge=0, le=1_000_000, description="The number of the last passage.")]
_EXPORT: Final = {"description": "Facts", "content": {"text/markdown": {"schema": {"type": "string"}}}}
Erase = Annotated[Flag, Query(description="Whether to remove it from the store instead of retiring it.")]
WithRuns = Annotated[Flag, Query(description="Whether to delete one's own runs whose logs still hold it.")]
StatusFilter = Annotated[FactStatus | None, Query(description="Only facts of this status.")]


def add_memory(routes: Routes, runs: ServedRuns, served: ServedMemory) -> None:
    """Add the routes. Facts and private documents exist for their owner only, not for admins."""
    _add_documents(routes, served)
    _add_uploads(routes, runs, served)
    _add_reading_of_facts(routes.below(FACTS_BASE), served)
    _add_changes_of_facts(routes.below(FACTS_BASE), served)


def _add_documents(routes: Routes, served: ServedMemory) -> None:
    one = routes.below(ONE_DOCUMENT)

    @routes.get(
        "/api/v1/memory/search",
        Scope.RUNS_READ,
        "Search documents and facts",
        wire.FOUND_LIST,
        fails=[501, 502, 503, 504],
    )
    async def search(
        by: Principal, q: Question, earlier: Earlier = "", limit: Passages = 6, labels: LabelFilter = ""
    ) -> Iterable[wire.FoundItem]:
        """The best first. An empty list: memory has nothing that fits well enough."""
        wanted = DocumentQuery(viewer=_own(by), labels=tuple(filter(None, labels.split(","))), sealed_facts=not by.run)
        return wire.found_items(await served.memory.search(q, wanted, earlier=earlier, limit=limit))

    @routes.get(DOCUMENTS_BASE, Scope.RUNS_READ, "List documents", wire.DOCUMENTS)
    async def documents(by: Principal) -> Iterable[Document]:
        """One's own, and those that are shared with the team."""
        return await served.memory.store.documents.list(DocumentQuery(viewer=_own(by), limit=1_000))

    @one.get("", Scope.RUNS_READ, "Show a document", wire.DOCUMENT, fails=[404])
    async def document(document_id: DocumentPath, by: Principal) -> Response:
        """With its text. Its state says how far it has been read."""
        store = served.memory.store
        found = await store.documents.find(document_id, viewer=_own(by))
        text = "".join(each.text for each in await store.passages.read(found.document_id))
        return json_answer({**wire.DOCUMENT.dump(found), "text": text})

    @one.delete("", Scope.RUNS, "Erase a document", wire.FORGOTTEN, fails=[404, 503, 507])
    async def erase(document_id: DocumentPath, by: Answerer, runs: WithRuns = False) -> wire.ForgottenFact:
        """Text, words and vectors are erased; only its owner can do that. Says which logs still hold passages."""
        owner = require_person(by)
        done = await served.memory.forget_document(document_id, by=owner, viewer=_own(by))
        if runs:
            done = done._replace(left=await served.memory.remove_remains(done.left, owner=owner, by=by.name))
        return wire.forgotten_document(done)

    @one.get("/passages", Scope.RUNS_READ, "List the passages of a document", wire.PASSAGES, fails=[404])
    async def passages(
        document_id: DocumentPath, by: Principal, first: First = 0, last: Last = None
    ) -> Iterable[Passage]:
        """From `first` to `last`, in their order; without `last` to the end."""
        found = await served.memory.store.documents.find(document_id, viewer=_own(by))
        return await served.memory.store.passages.read(found.document_id, first=first, last=last)


def _add_reading_of_facts(routes: Routes, served: ServedMemory) -> None:
    @routes.get("", Scope.RUNS_READ, "List facts", wire.FACTS)
    async def facts(by: Principal, status: StatusFilter = None) -> Iterable[Fact]:
        """One's own, the newest first; `proposed` ones wait for a review."""
        statuses = () if status is None else (status,)
        found = await served.memory.store.facts.list(FactQuery(viewer=_own(by), statuses=statuses))
        return [fact for fact in found if not (fact.sealed and by.run)]

    @routes.get("/export", Scope.RUNS_READ, "Export facts", also={200: _EXPORT})
    async def export(by: Principal) -> Response:
        """All of one's own, as Markdown that can be read and imported again; encrypted ones in the clear."""
        require_person(by)
        found = await served.memory.store.facts.list(FactQuery(viewer=_own(by), limit=MAX_FACTS))
        name = {"content-disposition": 'attachment; filename="facts.md"'}
        return Response(export_facts(found), media_type="text/markdown", headers=name)

    @routes.get("/{fact_id}", Scope.RUNS_READ, "Say where a fact comes from", wire.HISTORY, fails=[404])
    async def why(fact_id: FactPath, by: Principal) -> wire.FactHistory:
        """The sentence, its quote and run, who agreed, and the answers that used it."""
        found = await served.memory.review.why(fact_id, viewer=_own(by))
        if found.fact.sealed:
            require_person(by)  # a run would write it into a log that is open
        return wire.history_of(found)


def _add_changes_of_facts(routes: Routes, served: ServedMemory) -> None:
    one = routes.below("/{fact_id}")

    @routes.post("", Scope.RUNS, "Remember a fact", wire.FACT, status=201, fails=[503, 507])
    async def remember(wish: FactRequest, by: Answerer) -> Fact:
        """On the word of the person who asks. Runs cannot do this: they propose."""
        kind = FactKind(wish.kind or FactKind.FACT)
        return await served.memory.remember(wish.text, by=require_person(by), kind=kind, pinned=wish.pinned)

    @routes.post("/import", Scope.RUNS, "Import facts", wire.IMPORTED, fails=[503, 507])
    async def import_(wish: FactsImport, by: Answerer) -> wire.ImportedFacts:
        """What was in use waits for a review, unless `accept` vouches for the file. Doing it again changes nothing."""
        owner, source = require_person(by), wish.source or "an import"
        made = await served.memory.import_facts(wish.text, owner=owner, source=source, vouched=wish.accept)
        return wire.imported_facts(made)

    @one.post("/review", Scope.RUNS, "Review a fact", wire.FACT, fails=[404, 409, 503, 507])
    async def review(wish: FactReview, fact_id: FactPath, by: Answerer) -> Fact:
        """Accept or reject what a run proposes, or say that a fact still holds."""
        owner, viewer, facts = require_person(by), _own(by), served.memory.review
        match wish.decision:
            case "accept":
                return await facts.accept(fact_id, by=owner, viewer=viewer, replaces=wish.replaces or "")
            case "reject":
                return await facts.reject(fact_id, by=owner, viewer=viewer)
            case "confirm":
                return await facts.confirm(fact_id, by=owner, viewer=viewer)
            case unknown:
                assert_never(unknown)

    @one.patch("", Scope.RUNS, "Change a fact", wire.FACT, fails=[404, 409, 503, 507])
    async def change(wish: FactChange, fact_id: FactPath, by: Answerer) -> Fact:
        """A new text makes a new fact, which replaces the old one."""
        owner = require_person(by)
        return await served.memory.review.edit(fact_id, wish.text, by=owner, viewer=_own(by), pinned=wish.pinned)

    @one.delete("", Scope.RUNS, "Forget a fact", wire.FORGOTTEN, fails=[404, 409, 503, 507])
    async def forget(
        fact_id: FactPath, by: Answerer, erase: Erase = False, runs: WithRuns = False
    ) -> wire.ForgottenFact:
        """Says which answers rest on it, and which logs still hold it."""
        owner = require_person(by)
        if runs and not erase:
            raise InvalidInputs("Runs are deleted only for a fact that is erased", hint="Add `erase=true`.")
        done = await served.memory.review.forget(fact_id, by=owner, viewer=_own(by), erase=erase)
        if runs:
            done = done._replace(left=await served.memory.remove_remains(done.left, owner=owner, by=by.name))
        return wire.forgotten_fact(done, erased=erase)


def _add_uploads(routes: Routes, runs: ServedRuns, served: ServedMemory) -> None:
    @routes.post(
        DOCUMENTS_BASE,
        Scope.RUNS,
        "Add a document",
        wire.DOCUMENT,
        status=201,
        also=gives(STATUS, status=202, text="The run that fetches the page waits for an answer."),
        fails=[501, 502, 503, 504, 507],
    )
    async def add(wish: DocumentRequest, request: Request, by: Answerer) -> Document | Response:
        """One that was added before is brought up to date: only what has changed is read again.

        It is found by its words at once. A run, which the answer names, makes its vectors; `state` says how far it is.
        """
        owner = require_person(by)
        if wish.url is not None:
            return await add_page(request, wish, wish.url)
        if wish.source is None:
            raise InvalidInputs("A document needs `source`, its name, path or address")
        new = NewDocument(
            data=_bytes_of(wish),
            source=wish.source,
            owner=owner,
            media_type=wish.media_type or "",
            visibility=Visibility(wish.visibility or Visibility.PRIVATE),
            labels=wish.labels or (),
        )
        found = with_warning(await replace(served.memory.add, embed=None)(new))
        if served.memory.add.embed is None or found.state is DocumentState.READY:
            return found
        return json_answer({**wire.DOCUMENT.dump(found), "run_id": await served.embed_uploads(by)}, 201)

    async def add_page(request: Request, wish: DocumentRequest, url: str) -> Document | Response:
        """Start a run that fetches a page, and wait until it has ended or waits itself."""
        if wish.source is not None or wish.text is not None or wish.content is not None or wish.media_type is not None:
            raise InvalidInputs(
                "A page is added by its `url` alone", hint="Leave out source, text, content and media_type."
            )
        labels, team = _sound_labels(wish.labels or ()), wish.visibility == "team"
        task = ingestion_task(served.workflows, files=(), pages=[url], labels=labels, team=team)
        drive = await start_for(runs.start, request, task.asked_by(who_asks(request)))
        result = drive if isinstance(drive, RunResult) else await wait_for_result(drive)
        if not result.status.settled:
            return json_answer({"run_id": result.run_id, "status": result.status.value}, 202)
        done = outcome_of(result)
        if done["problems"]:
            raise DocumentUnreadable(str(done["problems"][0]["problem"]))
        viewer = _own(who_asks(request))
        return with_warning(await served.memory.store.documents.find(done["added"][0]["id"], viewer=viewer))

    def with_warning(added: Document) -> Document:
        """Return a document for the user who added it, with a note if they may think that it is encrypted."""
        return replace(added, notes=(*added.notes, UNENCRYPTED)) if runs.config.encryption == "all" else added


def _sound_labels(labels: Sequence[str]) -> tuple[str, ...]:
    try:
        return accept_labels(labels)
    except ValueError as problem:
        raise InvalidInputs(str(problem)) from problem


def _own(by: Principal) -> Viewer:
    return Viewer((owner_of(by),), sees_all=False)


def require_person(by: Principal) -> str:
    """Return the person who asks, and refuse a run: what it wants remembered, it proposes, and a person decides.

    Raises:
        Forbidden: a run asks.
    """
    if by.run:
        raise Forbidden(
            "A run cannot add documents or decide about facts", hint="It proposes with `remember`; a person reviews."
        )
    return owner_of(by)


def _bytes_of(wish: DocumentRequest) -> bytes:
    if (wish.text is None) is (wish.content is None):
        raise InvalidInputs("A document needs `text` or `content`, and not both")
    if wish.text is not None:
        return wish.text.encode("utf-8", "replace")
    try:
        return base64.b64decode(wish.content or "", validate=True)
    except binascii.Error as problem:
        raise InvalidInputs("`content` is no Base64") from problem
