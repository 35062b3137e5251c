"""Sanitises the queries and the results of search engines."""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urldefrag, urlsplit

from agent_fabric.application.ports.web import SearchHit, WebError
from agent_fabric.infrastructure.web.url_syntax import problem_with

MAX_QUERY_CHARS: Final = 1_000
_MAX_TITLE_CHARS: Final = 300
_MAX_SNIPPET_CHARS: Final = 1_000


def query_from(text: str) -> str:
    """Return a query as engines want it: on one line.

    Raises:
        WebError: it is empty or far too long.
    """
    query = " ".join(text.split())
    if not query:
        raise WebError("The query is empty. Say what to look for.")
    if len(query) > MAX_QUERY_CHARS:
        raise WebError(f"The query is longer than {MAX_QUERY_CHARS} characters. Use a few words.")
    return query


def hits_from(rows: Iterable[Any], *, limit: int, url_key: str, snippet_key: str) -> list[SearchHit]:
    """Return the rows that are pages, each page once and the best first, as the engine ordered them."""
    hits: dict[str, SearchHit] = {}
    for row in rows:
        if len(hits) >= limit:
            break
        url = _address(row, url_key)
        page = urldefrag(url).url.rstrip("/") if url else ""
        if not page or page in hits:
            continue
        title = (_text(row, "title") or url)[:_MAX_TITLE_CHARS]
        hits[page] = SearchHit(title=title, url=url, snippet=_text(row, snippet_key)[:_MAX_SNIPPET_CHARS])
    return list(hits.values())


def _text(row: Any, key: str) -> str:
    value = row.get(key) if isinstance(row, Mapping) else None
    return " ".join(value.split()) if isinstance(value, str) else ""


def _address(row: Any, key: str) -> str:
    """Return the row's web address; nothing if it has none that can be used."""
    value = row.get(key) if isinstance(row, Mapping) else None
    url = value.strip() if isinstance(value, str) else ""
    return url if _is_web_address(url) and not problem_with(url) else ""


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
