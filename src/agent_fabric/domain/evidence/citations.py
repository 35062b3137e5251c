"""Holds what a result cites against the pages that its run has read.

A quote counts when it stands on the page in whole words and numbers, apart from what typesetting changes: case, white
space, kinds of quotation marks and dashes, ligatures, soft hyphens, marks of lists and tables. `...` in a quote leaves
something out, unless the page has it there.

Two addresses are the same when they differ only in what names the same page for sure: the case of scheme and host, a
default port, the fragment, a slash at the end, and how characters are escaped. The query counts as it is, tracking
parameters included, and `http` is not `https`: a server may answer with another page. Where an address ends in a text
is not always clear, so a mention has several readings, and one that was fetched is enough.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from agent_fabric.domain.tools.findings import Source

CITATIONS = "citations"
"""Key in a payload under which a model lists what its result rests on."""
UNFETCHED = "unfetched_citations"
"""Key in a payload that lists those of them whose pages the run has not fetched."""
SHORTEST_QUOTE = 12
"""Letters and digits that a quote needs, on each side of `...`: fewer stand on almost every page."""
MAX_PROBLEMS = 10
"""Problems that are told at once."""

# ── quotes ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_ALIKE = {
    **dict.fromkeys(
        '\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2032\u2033\u00ab\u00bb\u2039\u203a\u02bc`"', "'"
    ),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe58\ufe63\uff0d", "-"),
    **dict.fromkeys("\u2014\u2015", " - "),
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),
}
"""Characters that a page and its quote may write differently: quotation marks, dashes, and invisible characters."""
_LONG_DASH = re.compile(r"-{2,}")
_LINE_MARK = re.compile(r"^[ \t]*(?:(?:[-*+\u2022\u00b7]|#{1,6}|>(?![ \t]*[\d.]))[ \t]+)+", re.MULTILINE)
"""What begins a line of a list, a heading or a quotation."""
_BETWEEN = "|:\u2022\u00b7"
"""A word of these alone parts cells or items, and need not be quoted."""
_DOTS = re.compile(r"\.{3,}")
_LEFT_OUT = re.compile(r"[\[(]?\s?\.{3,}\s?[\])]?")
_BEFORE = re.compile(r"(?:[ ',;:]|\.(?!\d))*")
_AFTER = " '.,;:"
"""What a sentence may put around a quote that the page does not have there; `.5` is a number."""
_SIGNS = frozenset("<>=!~+-\u00b1\u2264\u2265\u2260\u2248")
_UNITS = frozenset("%\u2030^")
_WITHOUT_SPACES = (("\u0e00", "\u109f"), ("\u1780", "\u17ff"), ("\u2e80", "\U0010ffff"))
"""Scripts in which a word ends where the reader knows it: Thai, Lao, Tibetan, Burmese, Khmer, Chinese, Japanese."""


class PageText:
    """A page's text, made comparable once for any number of quotes."""

    def __init__(self, text: str) -> None:
        self._text = _comparable(text)

    def has(self, quote: str) -> bool:
        """Tell whether a quote stands on the page, as it is or else its parts between `...` in their order."""
        whole = _comparable(quote)
        return self._has([whole]) or self._has(_LEFT_OUT.split(whole))

    def _has(self, parts: Sequence[str]) -> bool:
        parts = [bare for part in parts if (bare := _bare(part))]
        at = 0
        for part in parts:
            at = self._end_of(part, at)
            if at < 0:
                return False
        long_enough = all(_weight(part) >= SHORTEST_QUOTE for part in parts)
        return bool(parts) and (long_enough or parts == [_bare(self._text)])

    def _end_of(self, part: str, start: int) -> int:
        """Return where a part ends on the page, from `start` on; -1 if it does not stand there in whole words."""
        found = self._text.find(part, start)
        while found >= 0:
            end = found + len(part)
            if not _cuts_before(self._text, found) and not _cuts_after(self._text, end):
                return end
            found = self._text.find(part, found + 1)
        return -1


def _comparable(text: str) -> str:
    # Twice: normalising takes some of these characters apart, and makes others of them.
    plain = _with_usual_marks(unicodedata.normalize("NFKC", _with_usual_marks(text)))
    plain = _LINE_MARK.sub("", "\n".join(plain.splitlines()))
    words = _DOTS.sub(" ... ", _LONG_DASH.sub(" - ", plain)).casefold().split()
    following = (*words[1:], "")
    return " ".join(word for word, after in zip(words, following, strict=False) if not _is_mark(word, after))


def _bare(part: str) -> str:
    part = part.rstrip(_AFTER)
    begins = _BEFORE.match(part)
    return part[begins.end() :] if begins else part


def _is_mark(word: str, after: str) -> bool:
    """Tell whether a word is a mark of a list or a table, or a dash; before a number a dash may be a minus."""
    if word == "-":
        return not after.lstrip(".")[:1].isdigit()
    return word != ":" and not word.strip(_BETWEEN)


def _cuts_before(text: str, at: int) -> bool:
    """Tell whether what begins here is the rest of a longer word, number or comparison."""
    before, char = text[at - 1 : at], text[at]
    if not before:
        return False
    if _is_wordlike(char) and _is_wordlike(before):
        return True
    if char.isdigit() and (before in _SIGNS or before == "." or (before == "," and text[at - 2 : at - 1].isdigit())):
        return True
    hyphened = before == "-" and _is_wordlike(char) and _is_wordlike(text[at - 2 : at - 1])
    return hyphened or (char in _SIGNS and before in _SIGNS)


def _cuts_after(text: str, at: int) -> bool:
    """Tell whether what ends here goes on as a longer word, number or comparison."""
    char, after, later = text[at - 1], text[at : at + 1], text[at + 1 : at + 2]
    if not after:
        return False
    if _is_wordlike(char) and _is_wordlike(after):
        return True
    if char.isdigit() and (after in _UNITS or (after in ".," and later.isdigit())):
        return True
    joined = after in "-'" and _is_wordlike(char) and _is_wordlike(later)
    return joined or (char in _SIGNS and after in _SIGNS)


def _is_wordlike(char: str) -> bool:
    """Tell whether a character goes on with the word next to it."""
    if not char or any(first <= char <= last for first, last in _WITHOUT_SPACES):
        return False
    return char.isalnum() or unicodedata.category(char).startswith("M")


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
    r"(?:https?://|(?<![\w.@/-])www\.(?=[\w-]+\.\w))"
    r"(?:(?![,;|](?:https?://|www\.))[^\s<>\"`{}\\^\x00-\x1f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20])+",
    re.IGNORECASE,
)
_NO_CITATION = re.compile(r"""xmlns(?::[\w.-]+)?\s*=\s*["'][^"']{0,300}["']|<!DOCTYPE[^>]{0,300}>""", re.IGNORECASE)
"""Addresses that only name a format."""
_TRAILING = ".,;:!?*_~'\u2018\u2019\u201c\u201d\u00bb\u203a\u2026-\u2013\u2014|&(["
_ENDS = re.compile(r"[\u2014|]|\[\d{1,3}\]|['\u2019](?=\w{1,2}(?:\W|$))")
"""Where an address may have ended already: before a dash, the border of a cell, a footnote or the 's of a genitive."""
_MAX_CUTS = 8
"""Places and characters at the end of an address that are looked at: more are no honest address."""
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
    return urlunsplit((scheme, user + place, _escape(parts.path).rstrip("/"), _escape(parts.query), ""))


def same_address(one: str, other: str) -> bool:
    """Tell whether two addresses name the same page."""
    return address_of(one) == address_of(other)


def urls_in(value: object) -> tuple[str, ...]:
    """Return every web address in a text, or in any text of a JSON value, each once, in order.

    Each comes as it stands, with what may belong to the sentence after it: see `likeliest` and `readings`.
    """
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
            url = _within_brackets(found.replace("&amp;", "&"))
            if _has_host(likeliest(url)):
                yield url
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _urls(key)
            yield from _urls(item)
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        for item in value:
            yield from _urls(item)


def _within_brackets(url: str) -> str:
    """Cut an address off at the bracket that closes what it stands in."""
    open_: list[str] = []
    for at, char in enumerate(url):
        if char in "([":
            open_.append(char)
        elif char in _CLOSED_BY and (not open_ or open_.pop() != _CLOSED_BY[char]):
            return url[:at]
    return url


def likeliest(mention: str) -> str:
    """Return an address without what most likely belongs to the sentence or the markup around it."""
    return mention[: _ends(mention)[0]].rstrip(_TRAILING)


def readings(mention: str) -> Iterator[str]:
    """Return all that an address in a text may mean, the longest first."""
    *ends, whole = _ends(mention)
    for end in (whole, *reversed(ends[:_MAX_CUTS])):
        url = mention[:end]
        bare = url.rstrip(_TRAILING)
        yield from (url[:cut] for cut in range(end, max(len(bare), end - _MAX_CUTS), -1))
        yield bare


def _ends(mention: str) -> list[int]:
    """Return where an address may end, apart from punctuation before that."""
    return [*(found.start() for found in _ENDS.finditer(mention)), len(mention)]


def _spellings(url: str) -> tuple[str, ...]:
    """Return the addresses that are meant: without a scheme, either of the two."""
    return (f"https://{url}", f"http://{url}") if url.lower().startswith("www.") else (url,)


def _has_host(url: str) -> bool:
    try:
        host = urlsplit(_spellings(url)[0]).hostname or ""
    except ValueError:
        return False
    return any(char.isalnum() for char in host)


def _ascii(host: str) -> str:
    try:
        return host.encode("idna").decode().lower().rstrip(".")
    except UnicodeError:
        return host.lower().rstrip(".")


def _escape(text: str) -> str:
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
        return bool(self.at(url))

    def meant_by(self, mention: str) -> str | None:
        """Return the address of the page that a mention in a text means, if it was read."""
        return next((url for url in readings(mention) if url in self), None)

    def at(self, url: str) -> Sequence[Source]:
        """Return what was read at an address: a page that was fetched twice may have changed in between."""
        found = (self._sources.get(address_of(spelling)) for spelling in _spellings(url.strip()))
        return next((sources for sources in found if sources), ())

    def find_quote(self, url: str, quote: str) -> Source | None:
        """Return the page at an address on which a quote stands."""
        return next((source for source in self.at(url) if self._text(source).has(quote)), None)

    def _text(self, source: Source) -> PageText:
        if source.text not in self._texts:
            self._texts[source.text] = PageText(source.text)
        return self._texts[source.text]


def problems_with_citations(
    payload: Mapping[str, Any],
    sources: Sequence[Source],
    cited_in_files: Mapping[str, Sequence[str]],
    *,
    can_fetch: bool = True,
) -> tuple[str, ...]:
    """Say what is wrong with the citations of a result, one sentence each, for the model that has to mend it.

    `cited_in_files` are the addresses that files mention, by path. Who cannot fetch and has read nothing need not cite.
    """
    pages = ReadPages(sources)
    problems = [
        *([_NO_CITATIONS] if (can_fetch or sources) and not citations_of(payload) else ()),
        *_problems_with_list(payload, pages, can_fetch),
        *_problems_with_mentions(payload, pages, cited_in_files, can_fetch),
    ]
    if len(problems) <= MAX_PROBLEMS:
        return tuple(problems)
    return (*problems[:MAX_PROBLEMS], f"and {len(problems) - MAX_PROBLEMS} more problems of this kind.")


def citations_of(payload: Mapping[str, Any], key: str = CITATIONS) -> Sequence[Mapping[str, Any]]:
    """Return the citations of a result, as far as they have the shape of one."""
    cited = payload.get(key)
    return [entry for entry in cited if isinstance(entry, Mapping)] if isinstance(cited, list | tuple) else []


class SplitCitations(NamedTuple):
    """The citations of a result, by whether the run has fetched their pages."""

    fetched: list[Any]
    unfetched: list[Any]


def split_citations(payload: Mapping[str, Any], sources: Sequence[Source]) -> SplitCitations:
    """Part the citations of pages that were fetched from the others."""
    pages, cited = ReadPages(sources), payload.get(CITATIONS)
    split = SplitCitations([], [])
    for entry in cited if isinstance(cited, list | tuple) else ():
        url = str(entry.get("url") or "").strip() if isinstance(entry, Mapping) else ""
        (split.fetched if url in pages else split.unfetched).append(entry)
    return split


_NO_CITATIONS = (
    "There are no citations: give for each main claim the url of a page that you read and a quote from it, copied word "
    "for word."
)


def _problems_with_list(payload: Mapping[str, Any], pages: ReadPages, can_fetch: bool) -> Iterator[str]:
    for number, citation in enumerate(citations_of(payload), start=1):
        url, quote = (str(citation.get(key) or "").strip() for key in ("url", "quote"))
        if not url:
            yield f"Citation {number} has no url: give the address of a page that you read, or leave it out."
        elif url not in pages:
            yield _not_read(url, f"citation {number}", can_fetch)
        elif not quote:
            yield f"Citation {number} has no quote: copy the passage of {_short(url)} that shows the claim."
        elif pages.find_quote(url, quote) is None:
            yield (
                f"The quote of citation {number} is not on the page {_short(url)}: copy a passage word for word from "
                f"what the tool returned, at least {SHORTEST_QUOTE} letters long. It was: {_short(quote)!r}."
            )


def _problems_with_mentions(
    payload: Mapping[str, Any], pages: ReadPages, cited_in_files: Mapping[str, Sequence[str]], can_fetch: bool
) -> Iterator[str]:
    told = {address_of(str(citation.get("url"))) for citation in citations_of(payload)}
    mentions = [(f"{key!r}", urls_in(value)) for key, value in _own_words(payload)]
    for place, urls in (*mentions, *cited_in_files.items()):
        for mention in urls:
            url = likeliest(mention)
            if pages.meant_by(mention) is None and address_of(url) not in told:
                told.add(address_of(url))
                yield _not_read(url, place, can_fetch)


def _own_words(payload: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Return the parts of a result in which an address is the model's own word, and not the page's."""
    for key, value in payload.items():
        if key == CITATIONS:
            yield key, [citation.get("claim") for citation in citations_of(payload)]
        else:
            yield key, value


def _not_read(url: str, place: str, can_fetch: bool) -> str:
    if not can_fetch:
        return (
            f"{_short(url)} ({place}) was not fetched in this run: leave it out, or name the page by its title alone."
        )
    return (
        f"{_short(url)} ({place}) was not fetched in this run: fetch it with fetch_url, or leave it out; "
        "a page that cannot be fetched is named by its title alone."
    )


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:199] + "…"
