"""Facts as readable Markdown, which can be read back without a loss.

A quote may hold anything, such as lines that look like another fact. So a line of the file ends at one sign only, and a
quote with others that some programs end lines at stands once more in the details, where they are escaped.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Final

from agent_fabric.domain.errors import FactRefused
from agent_fabric.domain.ids import FactId, RunId
from agent_fabric.domain.memory.documents import plain_title
from agent_fabric.domain.memory.facts import MAX_QUOTE_CHARS, Fact, FactKind, FactScope, FactStatus, accept_text

_TITLE: Final = "# Memory\n"
_FACT: Final = re.compile(r"- (?P<text>.+) \[m:(?P<id>[0-9a-f]{12})\]$")
_QUOTE: Final = "  > "
_DETAILS: Final = re.compile(r"  <!-- (?P<json>\{.*\}) -->$")
_LINE_ENDS: Final = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_BLANKED: Final = str.maketrans(dict.fromkeys(_LINE_ENDS, " "))
_ESCAPED: Final = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in _LINE_ENDS})
_MAX_NAME_CHARS: Final = 2_100
_MAX_SOURCES: Final = 200
_ORDER: Final = (FactStatus.ACTIVE, FactStatus.PROPOSED, FactStatus.RETIRED, FactStatus.REJECTED)


def export_facts(facts: Iterable[Fact]) -> str:
    """Return facts as Markdown, those in use first."""
    known = list(facts)
    parts = [_TITLE]
    for status in _ORDER:
        some = sorted((each for each in known if each.status is status), key=lambda each: (each.created_at, each.id))
        if some:
            parts.append(f"\n## {status.value.capitalize()}\n\n")
            parts += [_lines(fact) for fact in some]
    return "".join(parts)


def import_facts(text: str) -> list[Fact]:
    """Return the facts of an export.

    Raises:
        FactRefused: a line is no fact.
    """
    facts: list[Fact] = []
    line_text, line_id, quote = "", "", list[str]()
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    for number, line in enumerate(lines, 1):
        found = _FACT.match(line)
        details = _DETAILS.match(line)
        if found is not None:
            line_text, line_id, quote = found["text"], found["id"], []
        elif line.startswith(_QUOTE.rstrip()) and line_id:
            quote.append(line[len(_QUOTE) :])
        elif details is not None and line_id:
            facts.append(_fact(line_id, line_text, "\n".join(quote), details["json"], number))
            line_id = ""
        elif line.strip() and not line.startswith("#"):
            raise _refusal(number)
    if line_id:
        raise _refusal(len(lines))
    return facts


def as_imported(fact: Fact, owner: str, source: str, *, vouched: bool) -> Fact:
    """Return a fact of a file as its new owner has it.

    A file can say anything about who said and who reviewed it. So unless its new owner vouches for the file, nothing of
    it is in use before a review, and the card names the file and not whom the file names.

    Raises:
        FactRefused: it is too long, more than one line, or looks like a secret.
    """
    if accept_text(fact.text) != fact.text:
        raise FactRefused(f"Fact {fact.id} is not one plain line", hint="Correct it in the file.")
    own = replace(fact, owner=owner)
    if vouched:
        return own
    file = f"the file {plain_title(source)}"
    return replace(
        own,
        status=FactStatus.PROPOSED if fact.status is FactStatus.ACTIVE else fact.status,
        source_run=None,
        source_seq=0,
        said_by=file,
        untrusted=tuple(dict.fromkeys((*fact.untrusted, file))),
        reviewed_by="",
        expires_at=None,
        supersedes=None,
        pinned=False,
    )


def fact_values(fact: Fact) -> dict[str, Any]:
    """Return a fact as plain values, by the names that programs know."""
    plain = {each.name: getattr(fact, each.name) for each in fields(fact)}
    return plain | {name: plain[name].value for name in ("scope", "kind", "status")} | {"untrusted": [*fact.untrusted]}


def fact_from(values: Mapping[str, Any]) -> Fact:
    """Return the fact that plain values describe.

    Raises:
        KeyError, TypeError, ValueError: they describe none.
    """
    run, older = values["source_run"], values["supersedes"]
    return Fact(
        id=FactId(str(values["id"])),
        owner=str(values["owner"]),
        scope=FactScope(values["scope"]),
        subject=str(values["subject"]),
        kind=FactKind(values["kind"]),
        text=str(values["text"]),
        source_run=None if run is None else RunId(str(run)),
        source_seq=int(values["source_seq"]),
        source_quote=str(values["source_quote"]),
        said_by=str(values["said_by"]),
        untrusted=tuple(map(str, values["untrusted"])),
        status=FactStatus(values["status"]),
        valid_from=float(values["valid_from"]),
        valid_to=_moment(values["valid_to"]),
        created_at=float(values["created_at"]),
        expires_at=_moment(values["expires_at"]),
        reviewed_by=str(values["reviewed_by"]),
        supersedes=None if older is None else FactId(str(older)),
        pinned=bool(values["pinned"]),
        sealed=bool(values.get("sealed", False)),
    )


def _lines(fact: Fact) -> str:
    readable = fact.source_quote.translate(_BLANKED)
    quoted = "".join(f"{_QUOTE}{line}\n" for line in readable.split("\n")) if readable else ""
    shown = ("id", "text", *(("source_quote",) if readable == fact.source_quote else ()))
    details = {name: value for name, value in fact_values(fact).items() if name not in shown}
    # A comment of HTML ends at the first two dashes.
    comment = json.dumps(details, ensure_ascii=False).replace("--", "-\\u002d").translate(_ESCAPED)
    return f"- {fact.text} {fact.citation}\n{quoted}  <!-- {comment} -->\n"


def _fact(fact_id: str, text: str, quote: str, details: str, number: int) -> Fact:
    try:
        fact = fact_from({"source_quote": quote, **json.loads(details), "id": fact_id, "text": text})
    except (KeyError, TypeError, ValueError) as problem:
        raise _refusal(number) from problem
    names = (fact.subject, fact.said_by, fact.reviewed_by, *fact.untrusted)
    moments = (fact.valid_from, fact.valid_to or 0.0, fact.created_at, fact.expires_at or 0.0)
    sound = max(map(len, names)) <= _MAX_NAME_CHARS and len(fact.untrusted) <= _MAX_SOURCES
    if not sound or len(fact.source_quote) > MAX_QUOTE_CHARS or not all(map(math.isfinite, moments)):
        raise _refusal(number)
    return fact


def _refusal(number: int) -> FactRefused:
    return FactRefused(f"Line {number} is not part of a fact", hint="Import what `fabric memory export` has written.")


def _moment(value: Any) -> float | None:
    return None if value is None else float(value)
