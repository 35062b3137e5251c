"""Bodies of requests about documents and facts."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agent_fabric.interfaces.http.bodies import RequestBody

Label = Annotated[str, StringConstraints(min_length=1, max_length=40)]
Sentence = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
FactPrefix = Annotated[str, StringConstraints(min_length=1, max_length=12)]


class DocumentRequest(RequestBody, json_schema_extra={"examples": [{"source": "handbook.md", "text": "# Handbook"}]}):
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
    """Who finds it beside its owner; not set: nobody."""


class FactRequest(RequestBody, json_schema_extra={"examples": [{"text": "The pool opens at 9"}]}):
    """A fact to remember."""

    text: Sentence
    kind: Literal["fact", "preference"] | None = None
    """Preferences do not expire; not set: `fact`."""
    pinned: bool = False
    """Whether agents are told it without looking it up."""


class FactChange(RequestBody, json_schema_extra={"examples": [{"text": "The pool opens at 10"}]}):
    """What is to be different."""

    text: Sentence | None = None
    """A new fact, which replaces the old one."""
    pinned: bool | None = None


class FactsImport(RequestBody, json_schema_extra={"examples": [{"text": "# Memory\n", "source": "facts.md"}]}):
    """Facts that were exported."""

    text: str
    """What the export has written."""
    source: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The name of the file, which cards show; not set: `an import`."""
    accept: bool = False
    """Whether to use facts that were in use, instead of reviewing them again: who asks vouches for the file."""


class FactReview(RequestBody, json_schema_extra={"examples": [{"decision": "accept"}]}):
    """What a person thinks of a fact."""

    decision: Literal["accept", "reject", "confirm"]
    """`confirm` says of a fact in use that it still holds."""
    replaces: FactPrefix | None = None
    """The fact that an accepted one replaces."""
