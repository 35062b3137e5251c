"""Documents, facts and what was found among them, as JSON."""

from collections.abc import Sequence
from typing import Any

from agent_fabric.application.memory.review_fact import Forgotten, WhyFact
from agent_fabric.application.memory.search_memory import FoundFact, FoundPassage, MemoryAnswer
from agent_fabric.application.ports.memory import FactUse
from agent_fabric.domain.memory.documents import Document
from agent_fabric.domain.memory.markdown import fact_values
from agent_fabric.wire.shape import Shape

DOCUMENT = Shape(
    Document,
    "id=document_id title source state standing problem? notes labels passages embedded media_type size content_hash"
    " owner visibility run_id created_at updated_at",
    name="Document",
)
FACT_USE = Shape(FactUse, name="FactUse")


def found_objects(answer: MemoryAnswer) -> list[dict[str, Any]]:
    """Return what was found, passages first: each with the keys `document`, `passage` and `score`."""
    return [*map(_passage, answer.passages), *map(_fact, answer.facts)]


def why_object(why: WhyFact) -> dict[str, Any]:
    """Return where a fact comes from, and what rests on it."""
    return {
        **fact_values(why.fact),
        "uses": _uses(why.uses),
        "superseded_by": None if why.superseded_by is None else why.superseded_by.id,
        "contradicts": [fact_values(each) for each in why.contradicts],
    }


def forgotten_object(forgotten: Forgotten, *, erased: bool) -> dict[str, Any]:
    """Return what is left of a fact."""
    return {
        "id": forgotten.fact.id,
        "status": "erased" if erased else forgotten.fact.status.value,
        "influenced": _uses(forgotten.influenced),
        "logs": list(forgotten.logs),
    }


def _uses(uses: Sequence[FactUse]) -> list[dict[str, Any]]:
    return [FACT_USE.dump(each) for each in uses]


def _passage(found: FoundPassage) -> dict[str, Any]:
    return {
        "document": found.document.document_id,
        "title": found.document.title,
        "source": found.document.source,
        "headings": list(found.headings),
        "passage": found.passage,
        "first": found.first,
        "last": found.last,
        "passages": found.document.passages,
        "start": found.start,
        "end": found.end,
        "score": round(found.score, 4),
        "fact": None,
    }


def _fact(found: FoundFact) -> dict[str, Any]:
    return {
        "document": None,
        "passage": found.fact.text,
        "score": round(found.score, 4),
        "fact": found.fact.id,
        "said_by": found.fact.said_by,
    }
