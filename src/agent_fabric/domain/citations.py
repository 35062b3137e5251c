"""Holds what a result cites against the pages that its run has read.

A quote counts when it stands on the page, apart from what typesetting changes: case, white space, kinds of quotation
marks and dashes, ligatures, soft hyphens, marks of lists and tables. `...` in a quote leaves something out.

Two addresses are the same when they differ only in what names the same page for sure: the case of scheme and host, a
default port, the fragment, a slash at the end, and how characters are escaped. The query counts as it is, tracking
parameters included, and `http` is not `https`: a server may answer with another page.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from agent_fabric.domain.sources import Source

SHORTEST_QUOTE = 12
"""Letters and digits that a quote needs, on each side of `...`: fewer stand on almost every page."""
MOST_PROBLEMS = 10
"""Problems that are told at once."""

# ── quotes ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_ALIKE = {
    **dict.fromkeys(
        '\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2032\u2033\u00ab\u00bb\u2039\u203a\u02bc`"', "'"
    ),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-"),
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),
}
"""Characters that a page and its quote may write differently: quotation marks, dashes, and what nobody sees."""
_MARKUP = "-|*#>:\u2022\u00b7"
"""A word of these alone stands for a list, a table or a dash, and need not be quoted."""
_LEFT_OUT = re.compile(r"[\[(]?\s?\.{3,}\s?[\])]?")
_AROUND = " '.,;:"
"""What a sentence may put around a quote that the page does not have there."""


class PageText:
    """A page's text, made comparable once for any number of quotes."""

    def __init__(self, text: str) -> None:
        self._text = _comparable(text)

    def has(self, quote: str) -> bool:
        """Tell whether a quote stands on the page; its parts between `...` in their order."""
        parts = [part.strip(_AROUND) for part in _LEFT_OUT.split(_comparable(quote))]
        parts = [part for part in parts if part]
        at = 0
        for part in parts:
            found = self._text.find(part, at)
            if found < 0:
                return False
            at = found + len(part)
        long_enough = all(_weight(part) >= SHORTEST_QUOTE for part in parts)
        return bool(parts) and (long_enough or parts == [self._text.strip(_AROUND)])


def quoted_in(quote: str, text: str) -> bool:
    """Tell whether a quote stands in a text; for many quotes from one text use `PageText`."""
    return PageText(text).has(quote)


def _comparable(text: str) -> str:
    # Twice: normalising takes some of these characters apart, and makes others of them.
    plain = _with_usual_marks(unicodedata.normalize("NFKC", _with_usual_marks(text)))
    return " ".join(word for word in plain.casefold().split() if word.strip(_MARKUP))


def _with_usual_marks(text: str) -> str:
    for char, usual in _ALIKE.items():  # twenty times as fast as str.translate on a long text
        text = text.replace(char, usual)
    return text


def _weight(part: str) -> int:
    """Count letters and digits; a character of a script without spaces says as much as three."""
    return sum(3 if char >= "\u2e80" else 1 for char in part if char.isalnum())


# ── addresses ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
_RESERVED = "%:/?#[]@!$&'()*+,;=|^{}\\\""
_DEFAULT_PORTS = {"http": 80, "https": 443}

_URL = re.compile(
    r"https?://(?:(?![,;|]https?://)[^\s<>\"`{}\\^\x00-\x1f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20])+", re.IGNORECASE
)
_NO_CITATION = re.compile(r"""xmlns(?::[\w.-]+)?\s*=\s*["'][^"']{0,300}["']|<!DOCTYPE[^>]{0,300}>""", re.IGNORECASE)
"""Addresses that only name a format."""
_TRAILING = ".,;:!?*_~'\u2018\u2019\u201c\u201d\u00bb\u203a\u2026-\u2013\u2014|"
_CLOSED_BY = {")": "(", "]": "["}


def address_of(url: str) -> str:
    """Return the form of an address that all its spellings share; what is no address comes back as it is."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return url.strip()
    if not parts.scheme:
        return url.strip()
    scheme, host = parts.scheme.lower(), _ascii(parts.hostname or "")
    user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    place = f"[{host}]" if ":" in host else host
    if port is not None and port != _DEFAULT_PORTS.get(scheme):
        place += f":{port}"
    return urlunsplit((scheme, user + place, _escaped(parts.path).rstrip("/"), _escaped(parts.query), ""))


def same_address(one: str, other: str) -> bool:
    """Tell whether two addresses name the same page."""
    return address_of(one) == address_of(other)


def urls_in(value: object) -> tuple[str, ...]:
    """Return every web address in a text, or in any text of a JSON value, each once, in order."""
    return tuple(dict.fromkeys(_urls(value)))


def urls_in_file(path: str, content: str) -> tuple[str, ...]:
    """Return the web addresses in a text file; in a table a comma ends one."""
    if not path.lower().endswith(".csv"):
        return urls_in(content)
    try:
        return urls_in(list(csv.reader(io.StringIO(content))))
    except csv.Error:
        return urls_in(content)


def _urls(value: object) -> Iterator[str]:
    if isinstance(value, str):
        for found in _URL.findall(_NO_CITATION.sub(" ", value)):
            url = _trimmed(found.replace("&amp;", "&"))
            if _has_host(url):
                yield url
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _urls(key)
            yield from _urls(item)
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        for item in value:
            yield from _urls(item)


def _trimmed(url: str) -> str:
    """Cut off what belongs to the sentence or the markup around an address."""
    open_: list[str] = []
    for at, char in enumerate(url):
        if char in "([":
            open_.append(char)
        elif char in _CLOSED_BY and (not open_ or open_.pop() != _CLOSED_BY[char]):
            url = url[:at]
            break
    return url.rstrip(_TRAILING)


def _has_host(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return any(char.isalnum() for char in host)


def _ascii(host: str) -> str:
    try:
        return host.encode("idna").decode().lower().rstrip(".")
    except UnicodeError:
        return host.lower().rstrip(".")


def _escaped(text: str) -> str:
    """Escape what must be, and nothing else."""

    def plain(found: re.Match[str]) -> str:
        char = chr(int(found.group()[1:], 16))
        return char if char in _UNRESERVED else found.group().upper()

    return _ESCAPED.sub(plain, quote(text, safe=_RESERVED, errors="replace"))


# ── the check ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class ReadPages:
    """The pages that a run has read, by every address under which they were asked for or answered."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources: dict[str, list[Source]] = {}
        for source in sources:
            for address in dict.fromkeys((address_of(source.url), address_of(source.final_url))):
                self._sources.setdefault(address, []).append(source)
        self._texts: dict[str, PageText] = {}

    def __contains__(self, url: str) -> bool:
        """Tell whether a page was read."""
        return address_of(url) in self._sources

    def at(self, url: str) -> Sequence[Source]:
        """Return what was read at an address: a page that was fetched twice may have changed in between."""
        return self._sources.get(address_of(url), ())

    def quoted(self, url: str, quote: str) -> Source | None:
        """Return the page at an address on which a quote stands."""
        return next((source for source in self.at(url) if self._text(source).has(quote)), None)

    def _text(self, source: Source) -> PageText:
        if source.text not in self._texts:
            self._texts[source.text] = PageText(source.text)
        return self._texts[source.text]


def problems_with_citations(
    payload: Mapping[str, Any], sources: Sequence[Source], cited_in_files: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Say what is wrong with the citations of a result, one sentence each, for the model that has to mend it.

    `cited_in_files` are the addresses that files of the run mention, by path.
    """
    pages = ReadPages(sources)
    problems = [*_problems_with_list(payload, pages), *_problems_with_mentions(payload, pages, cited_in_files)]
    if len(problems) <= MOST_PROBLEMS:
        return tuple(problems)
    return (*problems[:MOST_PROBLEMS], f"and {len(problems) - MOST_PROBLEMS} more problems of this kind.")


def citations_of(payload: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the citations of a result, as far as they have the shape of one."""
    cited = payload.get("citations")
    return [entry for entry in cited if isinstance(entry, Mapping)] if isinstance(cited, list | tuple) else []


def _problems_with_list(payload: Mapping[str, Any], pages: ReadPages) -> Iterator[str]:
    cited = citations_of(payload)
    if not cited:
        yield (
            "There are no citations: give for each main claim the url of a page that you fetched and a quote from it, "
            "copied word for word."
        )
    for number, citation in enumerate(cited, start=1):
        url, quote = (str(citation.get(key) or "").strip() for key in ("url", "quote"))
        if not url:
            yield f"Citation {number} has no url: give the address of a page that you fetched."
        elif url not in pages:
            yield _not_read(url, f"citation {number}")
        elif not quote:
            yield f"Citation {number} has no quote: copy the passage of {_short(url)} that shows the claim."
        elif pages.quoted(url, quote) is None:
            yield (
                f"The quote of citation {number} is not on the page {_short(url)}: copy a passage word for word from "
                f"what fetch_url returned, at least {SHORTEST_QUOTE} letters long. It was: {_short(quote)!r}."
            )


def _problems_with_mentions(
    payload: Mapping[str, Any], pages: ReadPages, cited_in_files: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    told = {address_of(str(citation.get("url"))) for citation in citations_of(payload)}
    mentions = [(f"{key!r}", urls_in(value)) for key, value in _spoken(payload)]
    for place, urls in (*mentions, *cited_in_files.items()):
        for url in urls:
            if url not in pages and address_of(url) not in told:
                told.add(address_of(url))
                yield _not_read(url, place)


def _spoken(payload: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Return the parts of a result in which an address is the model's own word, and not the page's."""
    for key, value in payload.items():
        if key == "citations":
            yield key, [citation.get("claim") for citation in citations_of(payload)]
        else:
            yield key, value


def _not_read(url: str, place: str) -> str:
    return (
        f"{_short(url)} ({place}) was not fetched in this run: fetch it with fetch_url, or leave it out; "
        "a page that cannot be fetched is named by its title alone."
    )


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:199] + "…"
