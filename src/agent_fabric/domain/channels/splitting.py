"""How a long text becomes messages that a platform takes.

Blocks stay whole where they can. One that is too long is cut at a line, else at a space, else between two characters,
and code stays code in every part. Nothing is left out.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from agent_fabric.domain.channels.graphemes import cut_before
from agent_fabric.domain.channels.markdown import Block, BlockKind, read_markdown
from agent_fabric.domain.channels.rendering import Rendering

MAX_PARTS: Final = 5
"""What needs more messages than this is sent as its first part and a file."""


class TextPart(NamedTuple):
    """One message."""

    text: str
    """With the platform's markup."""
    plain: str
    """The same without, for a platform that cannot parse the other."""


class SplitText(NamedTuple):
    """A text as messages."""

    parts: Sequence[TextPart]
    file: str = ""
    """The whole text, to be sent as a file behind the parts; empty: the parts are all of it."""


def split_text(text: str, rendering: Rendering, *, limit: int | None = None) -> SplitText:
    """Return a text as messages of at most `limit`, or what the platform allows."""
    parts = split_blocks(read_markdown(text), rendering, limit=limit)
    if len(parts) > MAX_PARTS:
        return SplitText([_part(parts[0], rendering)], file=text)
    return SplitText([_part(each, rendering) for each in parts])


def split_blocks(blocks: Sequence[Block], rendering: Rendering, *, limit: int | None = None) -> list[list[Block]]:
    """Return blocks in groups that each fit into one message."""
    most = limit or rendering.limit
    groups: list[list[Block]] = []
    for block in (piece for each in blocks for piece in _pieces(each, rendering, most)):
        if groups and rendering.size([*groups[-1], block]) <= most:
            groups[-1].append(block)
        else:
            groups.append([block])
    return groups


def _part(blocks: Sequence[Block], rendering: Rendering) -> TextPart:
    return TextPart(rendering.render(blocks), rendering.plain(blocks))


def _pieces(block: Block, rendering: Rendering, limit: int) -> Iterator[Block]:
    """Cut a block until each piece fits."""
    text = block.text
    start = 0
    while rendering.size([rest := block.slice(start, len(text))]) > limit:
        end = _longest(block, start, rendering, limit)
        end = _good_cut(text, start, end)
        yield block.slice(start, end)
        start = end
        if block.kind is BlockKind.CODE and text[start : start + 1] == "\n":
            start += 1  # the end of the message is the end of the line
    if rest.text or block.kind is BlockKind.RULE:
        yield rest


def _longest(block: Block, start: int, rendering: Rendering, limit: int) -> int:
    """Return the end of the longest piece from `start` that fits; at least one character."""
    ends = range(start + 1, min(len(block.text), start + limit) + 1)
    return start + max(1, bisect_right(ends, limit, key=lambda end: rendering.size([block.slice(start, end)])))


def _good_cut(text: str, start: int, end: int) -> int:
    if end >= len(text):
        return end
    half = start + (end - start) // 2
    line = text.rfind("\n", half, end + 1)
    if line > start:
        return line
    space = text.rfind(" ", half, end)
    if space >= start:
        return space + 1
    return max(cut_before(text, end), start + 1)
