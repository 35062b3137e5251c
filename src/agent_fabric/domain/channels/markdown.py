"""The Markdown that models write, as one tree that every platform is rendered from.

A document is a list of blocks, a block a list of spans. What cannot be understood is text: nothing is ever lost. The
reader takes time in proportion to the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from agent_fabric.domain.dataclass import dataclass

_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})\s*([A-Za-z0-9_+#.-]{0,40})[^`\n]*$")
_HEADING: Final = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_ITEM: Final = re.compile(r"^(\s{0,40})([-*+]|\d{1,9}[.)])\s+(.*)$")
_RULE: Final = re.compile(r"^ {0,3}(?:-{3,}|\*{3,}|_{3,})\s*$")
_TOKEN: Final = re.compile(r"\\[\\`*_~\[\]()#>|!-]|`+|\*\*|\*|__|_|~~|\[")
_LINK: Final = re.compile(r"\[([^\[\]\n]{1,1000})\]\((https?://[^\s()<>\"]{1,1500})\)")
MAX_DEPTH: Final = 8
"""Of lists, and of styles inside styles."""


class BlockKind(StrEnum):
    """What a block is."""

    PARAGRAPH = "paragraph"
    HEADING = "heading"
    ITEM = "item"
    QUOTE = "quote"
    CODE = "code"
    RULE = "rule"


class Style(StrEnum):
    """How a span looks."""

    BOLD = "bold"
    ITALIC = "italic"
    STRIKE = "strike"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Span:
    """Text in one style."""

    text: str
    styles: frozenset[Style] = frozenset()
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A paragraph, an item of a list, a piece of code."""

    kind: BlockKind
    spans: tuple[Span, ...] = ()
    marker: str = ""
    """What stands before an item, or the language of code."""
    depth: int = 0
    """How far an item is indented."""

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)

    def slice(self, start: int, end: int) -> "Block":
        """Return the block with a part of its text; what is not the beginning of an item has no marker."""
        spans: list[Span] = []
        at = 0
        for span in self.spans:
            begin, stop = max(start - at, 0), min(end - at, len(span.text))
            if begin < stop:
                spans.append(replace(span, text=span.text[begin:stop]))
            at += len(span.text)
        marker = "" if start and self.kind is BlockKind.ITEM else self.marker
        return replace(self, spans=tuple(spans), marker=marker)


def read_markdown(text: str) -> list[Block]:
    """Return the blocks of a text."""
    blocks: list[Block] = []
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    waiting: list[str] = []

    def finish() -> None:
        if waiting:
            blocks.append(Block(kind=BlockKind.PARAGRAPH, spans=read_spans("\n".join(waiting))))
            waiting.clear()

    index = 0
    while index < len(lines):
        line = lines[index]
        index += 1
        if fence := _FENCE.match(line):
            finish()
            code, index = _code(lines, index, fence[1])
            blocks.append(Block(kind=BlockKind.CODE, spans=(Span(code),), marker=fence[2]))
        elif line.lstrip().startswith("|") and index < len(lines) and _is_table_rule(lines[index]):
            finish()
            rows = [line]
            while index < len(lines) and lines[index].lstrip().startswith("|"):
                rows.append(lines[index])
                index += 1
            # No platform has tables; in a fixed width they can be read.
            blocks.append(Block(kind=BlockKind.CODE, spans=(Span("\n".join(rows)),)))
        elif not line.strip():
            finish()
        elif _RULE.match(line):
            finish()
            blocks.append(Block(kind=BlockKind.RULE))
        elif heading := _HEADING.match(line):
            finish()
            blocks.append(Block(kind=BlockKind.HEADING, spans=read_spans(heading[1])))
        elif item := _ITEM.match(line):
            finish()
            depth = min(len(item[1].expandtabs(4)) // 2, MAX_DEPTH)
            marker = item[2] if item[2][0].isdigit() else "•"
            blocks.append(Block(kind=BlockKind.ITEM, spans=read_spans(item[3]), marker=marker, depth=depth))
        elif line.lstrip().startswith(">"):
            finish()
            quoted = [line.lstrip()[1:].removeprefix(" ")]
            while index < len(lines) and lines[index].lstrip().startswith(">"):
                quoted.append(lines[index].lstrip()[1:].removeprefix(" "))
                index += 1
            blocks.append(Block(kind=BlockKind.QUOTE, spans=read_spans("\n".join(quoted))))
        else:
            waiting.append(line)
    finish()
    return [each for each in blocks if each.text or each.kind is BlockKind.RULE]


def read_spans(text: str) -> tuple[Span, ...]:
    """Return the spans of a text. A mark that is never closed is text."""
    return _join(_spans(text, frozenset()))


def _code(lines: Sequence[str], index: int, fence: str) -> tuple[str, int]:
    """Return code up to its closing fence, or to the end, and the line behind it."""
    code: list[str] = []
    while index < len(lines):
        stripped = lines[index].strip()
        index += 1
        if stripped.startswith(fence) and not stripped.strip(fence[0]):
            break
        code.append(lines[index - 1])
    return "\n".join(code), index


def _is_table_rule(line: str) -> bool:
    stripped = line.strip()
    return len(stripped) > 2 and stripped[0] == "|" and not stripped.strip("|-: \t") and "-" in stripped


def _spans(text: str, styles: frozenset[Style], depth: int = 0) -> Iterator[Span]:
    at = plain = 0
    unclosed: set[str] = set()
    while token := _TOKEN.search(text, at):
        mark = token[0]
        at = token.end()
        found: tuple[int, Span | tuple[str, Style]] | None = None
        if mark[0] == "\\":
            found = at, Span(mark[1], styles)
        elif mark[0] == "[":
            if link := _LINK.match(text, token.start()):
                found = link.end(), Span(link[1], styles, link[2])
        elif depth < MAX_DEPTH and mark not in unclosed and _opens(text, token.start(), mark):
            close = _closing(text, at, mark)
            if close < 0:
                unclosed.add(mark)  # and so none behind it closes either
            elif mark[0] == "`":
                found = close + len(mark), Span(_strip_padding(text[at:close]), styles | {Style.CODE})
            else:
                found = close + len(mark), (text[at:close], _STYLES[mark])
        if found is None:
            continue
        if plain < token.start():
            yield Span(text[plain : token.start()], styles)
        at = plain = found[0]
        made = found[1]
        if isinstance(made, Span):
            yield made
        else:
            yield from _spans(made[0], styles | {made[1]}, depth + 1)
    if plain < len(text):
        yield Span(text[plain:], styles)


_STYLES: Final = {"**": Style.BOLD, "__": Style.BOLD, "*": Style.ITALIC, "_": Style.ITALIC, "~~": Style.STRIKE}


def _opens(text: str, start: int, mark: str) -> bool:
    """Tell whether a mark can begin a style: text follows at once, and no word goes before an underscore."""
    if mark[0] == "`":
        return True
    following = text[start + len(mark) : start + len(mark) + 1]
    if not following or following.isspace():
        return False
    return mark[0] != "_" or start == 0 or not (text[start - 1].isalnum() or text[start - 1] == "_")


def _closing(text: str, at: int, mark: str) -> int:
    """Return where a mark closes; -1: nowhere."""
    place = text.find(mark, at)
    while place >= 0:
        end = place + len(mark)
        longer = text[end : end + 1] == mark[0] or (place > at and text[place - 1] == mark[0])
        if mark[0] == "`":
            if not longer and place > at:
                return place
        elif not longer and place > at and not text[place - 1].isspace() and text[place - 1] != "\\":
            inside_word = mark[0] == "_" and text[end : end + 1].isalnum()
            if not inside_word:
                return place
        while end < len(text) and text[end] == mark[0]:
            end += 1
        place = text.find(mark, end)
    return -1


def _strip_padding(code: str) -> str:
    padded = len(code) > 2 and code[0] == code[-1] == " " and bool(code.strip())
    return code[1:-1] if padded else code


def _join(spans: Iterator[Span]) -> tuple[Span, ...]:
    joined: list[Span] = []
    for span in spans:
        last = joined[-1] if joined else None
        if last is not None and (last.styles, last.link) == (span.styles, span.link):
            joined[-1] = replace(last, text=last.text + span.text)
        elif span.text:
            joined.append(span)
    return tuple(joined)
