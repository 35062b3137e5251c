"""What a run may have remembered: whose words a proposal quotes, and who has to agree.

A proposal rests on a quote: words of a person, or of a document. System prompts, recalled facts, output of commands and
what a model says itself are never quoted: memory would repeat itself, and a planted sentence could vouch for itself.
"""

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from agent_fabric.domain.errors import FactRefused
from agent_fabric.domain.events import Body, PackStarted, RunCreated, ToolReturned
from agent_fabric.domain.memory.documents import document_called
from agent_fabric.domain.memory.facts import MAX_QUOTE_CHARS, FactStatus
from agent_fabric.domain.secrets.shapes import hide_shapes
from agent_fabric.domain.tools.specs import MEMORY_TOOL, PASSAGES

READING_TOOLS: Final = frozenset({"read_file", "fetch_url", "browser_read"})
"""Tools whose results are documents."""
_SHORTEST_QUOTE: Final = 8
_FENCES: Final = ("```", "~~~")


class Learning(StrEnum):
    """Whether runs may propose facts."""

    OFF = "off"
    REVIEW = "review"
    """A person accepts each of them."""
    AUTO = "auto"
    """A person's own words are taken without a review, in runs that have read nothing untrusted."""


class Quotable(NamedTuple):
    """What an event says in words that may be quoted."""

    text: str
    said_by: str
    is_person: bool
    """Whether a person said it; otherwise a document."""


def quotable_in(body: Body, owner: str) -> Sequence[Quotable]:
    """Return what may be quoted of an event, each text with its speaker; there may be nothing."""
    match body:
        case RunCreated():
            return _owner_texts(body, owner)
        case ToolReturned(tool=tool) if tool in READING_TOOLS:
            return [Quotable(_text_of(body), body.origin or _file_of(body), is_person=False)]
        case PackStarted(knowledge=known) if known is not None:
            return [Quotable(each.text, document_called(each.title), is_person=False) for each in known.passages]
        case ToolReturned(tool=tool) if tool == MEMORY_TOOL:  # its passages are documents; its facts are not quoted
            passages = [each for each in body.result.get(PASSAGES, ()) if isinstance(each, Mapping)]
            return [
                Quotable(str(each.get("text", "")), document_called(str(each.get("title", ""))), is_person=False)
                for each in passages
            ]
        case _:
            return []


def check_quote(quote: str, offered: Sequence[Quotable]) -> Quotable:
    """Return whose words a quote is.

    Raises:
        FactRefused: it does not stand there, is too short to tell anything, or nothing of the event may be quoted.
    """
    if not offered:
        raise FactRefused(
            "Nothing of this event can be remembered: it is neither a person's words nor a document's",
            hint="Quote the message of a person, or a file or page that was read.",
        )
    if not _SHORTEST_QUOTE <= len(quote.strip()) <= MAX_QUOTE_CHARS:
        raise FactRefused(
            f"A quote has {_SHORTEST_QUOTE} to {MAX_QUOTE_CHARS:,} characters; this one has {len(quote.strip()):,}",
            hint="Quote the one sentence that the fact rests on.",
        )
    said = next((each for each in offered if quote in each.text), None)
    if said is None:
        raise FactRefused("The quote does not stand in that event", hint="Quote it exactly as it stands there.")
    if hide_shapes(quote) != quote:
        raise FactRefused("The quote holds what looks like a secret", hint="Quote a sentence without it.")
    return said


def status_of_proposal(learning: Learning, said: Quotable, text: str, untrusted: Sequence[str]) -> FactStatus:
    """Return what becomes of a proposal that has been checked.

    `untrusted` are the sources of untrusted text that the run has read so far. Only a person's own words become a fact
    without a review: whole sentences, as what is cut out of one may say the opposite, and no questions.

    Raises:
        FactRefused: runs must not propose anything.
    """
    if learning is Learning.OFF:
        raise FactRefused("Learning is off", hint="Set `memory.learning: review`, or add the fact yourself.")
    own_words = said.is_person and not untrusted and _is_stated(text, said.text)
    return FactStatus.ACTIVE if learning is Learning.AUTO and own_words else FactStatus.PROPOSED


def _owner_texts(body: RunCreated, owner: str) -> Sequence[Quotable]:
    """Return what the owner of a run wrote, as far as no one else can have written it."""
    made = body.started_by or body.trial_of or body.workflow is not None or body.agent is not None
    if made or body.untrusted or body.parent is not None:  # another run, or a step, has put the prompt together
        return []
    own = body.prompt if body.quotes is None else body.quotes.own_words
    # The owner may be a program with a key of its own, which passes on what it was sent.
    return [Quotable(_without_pasted(own), owner, is_person=not owner.startswith("key:"))]


def _without_pasted(text: str) -> str:
    """Return a text without lines that are someone else's: quoted as in a mail, or fenced as code."""
    kept: list[str] = []
    fence = ""
    for line in text.splitlines():
        begin = line.lstrip()
        if begin[:3] in ((fence,) if fence else _FENCES):
            fence = "" if fence else begin[:3]
        elif not fence and not begin.startswith(">"):
            kept.append(line)
    return "\n".join(kept)


def _is_stated(text: str, written: str) -> bool:
    """Tell whether a text is one or more whole sentences of another, and no question."""
    core = re.escape(" ".join(text.split()).rstrip(".!。！ "))
    whole = re.compile(rf"(?:^|[.!?:。！？：]\s*){core}\s*(?:[.!。！]|$)")
    lines = [" ".join(line.split()) for line in written.splitlines()]
    return bool(core) and any(whole.search(each) for each in (" ".join(lines), *lines))


def _file_of(body: ToolReturned) -> str:
    """Name the file that a tool has read."""
    path = body.result.get("path")
    return f"the file {path}" if isinstance(path, str) and path.isprintable() else f"the file of {body.tool}"


def _text_of(body: ToolReturned) -> str:
    """Return the texts of a result, one below the other."""
    found: list[str] = []
    waiting: list[Any] = [_whole(body)]
    while waiting:
        match waiting.pop(0):
            case str() as text:
                found.append(text)
            case Mapping() as values:
                waiting.extend(values.values())
            case list() | tuple() as values:
                waiting.extend(values)
            case _:
                pass
    return "\n".join(found)


def _whole(body: ToolReturned) -> Any:
    if not body.whole:
        return body.result
    try:
        return json.loads(body.whole)
    except ValueError:
        return body.result
