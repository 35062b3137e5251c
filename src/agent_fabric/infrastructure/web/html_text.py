"""Reads HTML, however broken: its title, its main text, all of its text.

Importing this takes half a second, so only who reads a page should do it.
"""

import logging
from typing import Any, Final

import trafilatura
from lxml import etree, html  # type: ignore[import-untyped] # it has no stubs; it comes with trafilatura

_THOROUGH_TAGS: Final = 5_000
"""Up to this size several ways to find the main text are compared; one of them takes quadratic time."""
_MAX_TAGS: Final = 30_000
"""Finding the main text among more tags would take more than a second or two, and soon minutes."""
_MAX_TITLE_CHARS: Final = 300
_UNREAD: Final = frozenset({"head", "script", "style", "template", "svg"})
_INLINE: Final = frozenset(
    {"a", "abbr", "b", "bdi", "bdo", "cite", "code", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark", "q"}
    | {"s", "samp", "small", "span", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr"}
)
"""Elements within a line; all others start a new one."""


def parse_html(page: str) -> Any:
    """Return the page's tree; None if there is nothing in it."""
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        return html.document_fromstring(page.replace("\0", "").encode(), parser=parser)
    except (etree.LxmlError, ValueError):
        return None


def title_of(tree: Any) -> str:
    """Return the title, or the one meant for social media, on one line."""
    title = tree.xpath("string(//head/title)") or tree.xpath("string(//meta[@property='og:title']/@content)")
    return " ".join(str(title).split())[:_MAX_TITLE_CHARS]


def main_text(page: str) -> str:
    """Return the page's text without menus, footers and comments; nothing if no main text is found."""
    tags = page.count("<")
    if tags > _MAX_TAGS:
        return ""
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # what it calls an error is just a page without article
    try:
        return trafilatura.extract(page, fast=tags > _THOROUGH_TAGS, include_comments=False) or ""
    except Exception:  # noqa: BLE001 - pages are endlessly strange, and there is a plain way to read them
        return ""


def plain_text(tree: Any) -> str:
    """Return all text of a page, each block on a line of its own."""
    pieces: list[str] = []
    walk = etree.iterwalk(tree, events=("start", "end"))
    for event, element in walk:
        if element.tag not in _INLINE:
            pieces.append("\n")
        if event == "end":
            pieces.append(element.tail or "")
        elif element.tag in _UNREAD:
            walk.skip_subtree()
        else:
            pieces.append(element.text or "")
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)
