"""How a tree of Markdown is written for each platform."""

import html
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from agent_fabric.domain.channels.graphemes import utf16_units
from agent_fabric.domain.channels.markdown import Block, BlockKind, Span, Style
from agent_fabric.domain.dataclass import dataclass

WORD_JOINER: Final = "\u2060"
"""Stands behind an @ and inside a fence, so that the platform makes nothing of it. People do not see it."""
_MENTION: Final = re.compile(r"(?<!\w)@(?=\w)")
"""Not the @ of an address such as git@example.org, which people copy."""
_RULE_LINE: Final = "———"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """How one platform wants text, and how much of it."""

    render: Callable[[Sequence[Block]], str]
    plain: Callable[[Sequence[Block]], str]
    """The same text without markup: what is sent when the platform cannot parse the other."""
    size: Callable[[Sequence[Block]], int]
    """The size of some blocks, as the platform counts it."""
    limit: int
    """The largest size of one message."""
    literal: Callable[[str], str] = lambda text: text
    """Returns a text without markup so that the platform makes markup of nothing in it, and shows every character."""
    can_edit: bool = True
    """Whether a message can get another text."""
    max_edit_bytes: int | None = None
    """The largest text that a message can get; None: as large as one that is sent."""

    def literal_size(self, text: str) -> int:
        """Return the size of a text without markup, as the platform counts it."""
        return utf16_units(self.literal(text))

    def takes_edit(self, text: str) -> bool:
        """Tell whether a message can get this text instead of its own."""
        return self.can_edit and (self.max_edit_bytes is None or len(text.encode()) <= self.max_edit_bytes)


_DISCORD_SPECIAL: Final = re.compile(r"([\\*_~`|<>\[\]#-])")
"""What Discord makes markup of. `<` begins mentions, dates and emojis."""


def _discord_escaped(text: str) -> str:
    return _DISCORD_SPECIAL.sub(r"\\\1", text)


def _slack_escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_WHATSAPP_MARKS: Final = re.compile(r"[*_~`]|^(?:[>-]|\d+\.) ", re.MULTILINE)


def _whatsapp_verbatim(text: str) -> str:
    """Return a text in which nothing becomes markup: as code, since WhatsApp knows no escape."""
    return f"```\n{_quiet_marks(text)}\n```" if _WHATSAPP_MARKS.search(text) else text


def _quiet_marks(text: str) -> str:
    """Return text whose fences mean nothing; these platforms know no escape."""
    return text.replace("```", f"`{WORD_JOINER}`{WORD_JOINER}`")


def _join(blocks: Sequence[Block], write: Callable[[Block], str]) -> str:
    """Put blocks below each other: items of a list close together, all else with an empty line between."""
    text = ""
    for index, block in enumerate(blocks):
        if index:
            both_items = block.kind is BlockKind.ITEM and blocks[index - 1].kind is BlockKind.ITEM
            text += "\n" if both_items else "\n\n"
        text += write(block)
    return text


def _lead(block: Block) -> str:
    indent = "  " * block.depth
    return f"{indent}{block.marker} " if block.marker else f"{indent}  "


def _defuse_mentions(text: str) -> str:
    return _MENTION.sub(f"@{WORD_JOINER}", text)


def _plain_block(block: Block) -> str:
    if block.kind is BlockKind.RULE:
        return _RULE_LINE
    text = "".join(_plain_span(span) for span in block.spans)
    return _lead(block) + text if block.kind is BlockKind.ITEM else text


def _plain_span(span: Span) -> str:
    shown = _defuse_mentions(span.text)
    return f"{shown} ({span.link})" if span.link and span.link != span.text else shown


_TELEGRAM_TAGS: Final = {Style.BOLD: "b", Style.ITALIC: "i", Style.STRIKE: "s"}


def _telegram_block(block: Block) -> str:
    if block.kind is BlockKind.RULE:
        return _RULE_LINE
    if block.kind is BlockKind.CODE:
        code = html.escape(block.text, quote=False)
        language = f'<code class="language-{html.escape(block.marker)}">{code}</code>'
        return f"<pre>{language if block.marker else code}</pre>"
    text = "".join(_telegram_span(span) for span in block.spans)
    if block.kind is BlockKind.HEADING:
        return f"<b>{text}</b>"
    if block.kind is BlockKind.QUOTE:
        return f"<blockquote>{text}</blockquote>"
    return _lead(block) + text if block.kind is BlockKind.ITEM else text


def _telegram_span(span: Span) -> str:
    if Style.CODE in span.styles:  # nothing else can be combined with it
        return f"<code>{html.escape(span.text, quote=False)}</code>"
    text = html.escape(_defuse_mentions(span.text), quote=False)
    if span.link:
        # The address is shown, too: a label that names another one deceives no one.
        text = f'<a href="{html.escape(span.link)}">{text}</a>'
        if span.link != span.text:
            text += f" ({html.escape(span.link, quote=False)})"
    for style, tag in _TELEGRAM_TAGS.items():
        if style in span.styles:
            text = f"<{tag}>{text}</{tag}>"
    return text


def _marked_block(
    block: Block, write: Callable[[Span], str], *, bold: str, escape: Callable[[str], str] = lambda text: text
) -> str:
    if block.kind is BlockKind.RULE:
        return _RULE_LINE
    if block.kind is BlockKind.CODE:
        return f"```\n{escape(_break_fences(block.text))}\n```"
    text = "".join(write(span) for span in block.spans)
    if block.kind is BlockKind.HEADING and "\n" not in text and bold[0] not in text:
        return f"{bold}{text}{bold}"
    if block.kind is BlockKind.QUOTE:
        return "\n".join(f"> {line}" for line in text.split("\n"))
    return _lead(block) + text if block.kind is BlockKind.ITEM else text


def _break_fences(code: str) -> str:
    """Return code in which no fence ends."""
    return code.replace("``", f"`{WORD_JOINER}`")


def _inline(code: str) -> str:
    return "`" + code.replace("`", "'").replace("\n", " ") + "`"


def _discord_span(span: Span) -> str:
    if Style.CODE in span.styles:
        return _inline(span.text)
    text = _discord_escaped(_defuse_mentions(span.text))
    if span.link:
        text = f"{text} (<{span.link}>)" if span.link != span.text else f"<{span.link}>"  # <…>: no preview
    return _wrap(text, span.styles, {Style.BOLD: "**", Style.ITALIC: "*", Style.STRIKE: "~~"})


def _slack_span(span: Span) -> str:
    if Style.CODE in span.styles:
        return _slack_escaped(_inline(span.text))
    text = _slack_escaped(_quiet_marks(_defuse_mentions(span.text)))
    if span.link:
        text = f"{text} ({_slack_escaped(span.link)})" if span.link != span.text else _slack_escaped(span.link)
    return _wrap(text, span.styles, {Style.BOLD: "*", Style.ITALIC: "_", Style.STRIKE: "~"})


def _whatsapp_span(span: Span) -> str:
    if Style.CODE in span.styles:
        return _inline(span.text)
    text = _quiet_marks(span.text)
    if span.link:
        text = f"{text} ({span.link})" if span.link != span.text else span.link
    return _wrap(text, span.styles, {Style.BOLD: "*", Style.ITALIC: "_", Style.STRIKE: "~"})


def _wrap(text: str, styles: frozenset[Style], marks: dict[Style, str]) -> str:
    """Put marks around the words of a text; around spaces or line ends they would be shown."""
    inner = text.strip()
    if not inner or "\n" in inner:
        return text
    start = text.index(inner)
    before, after = text[:start], text[start + len(inner) :]
    for style, mark in marks.items():
        if style in styles and mark not in inner:
            inner = f"{mark}{inner}{mark}"
    return before + inner + after


def _render_plain(blocks: Sequence[Block]) -> str:
    return _join(blocks, _plain_block)


def _rendering(write: Callable[[Block], str], *, counts_plain: bool = False, **more: Any) -> Rendering:
    """Return how a platform wants text whose blocks are written like this."""

    def render(blocks: Sequence[Block]) -> str:
        return _join(blocks, write)

    def size(blocks: Sequence[Block]) -> int:
        return utf16_units((_render_plain if counts_plain else render)(blocks))

    return Rendering(render=render, plain=_render_plain, size=size, **more)


PLAIN: Final = _rendering(_plain_block, limit=4_096)
TELEGRAM: Final = _rendering(_telegram_block, counts_plain=True, limit=4_096)
"""Telegram counts what is left after parsing."""
DISCORD: Final = _rendering(
    partial(_marked_block, write=_discord_span, bold="**"), limit=2_000, literal=_discord_escaped
)
SLACK: Final = _rendering(
    partial(_marked_block, write=_slack_span, bold="*", escape=_slack_escaped),
    limit=3_000,
    literal=_slack_escaped,
    max_edit_bytes=4_000,
)
WHATSAPP: Final = _rendering(
    partial(_marked_block, write=_whatsapp_span, bold="*"), limit=4_096, literal=_whatsapp_verbatim, can_edit=False
)
_RENDERINGS: Final = {"telegram": TELEGRAM, "discord": DISCORD, "slack": SLACK, "whatsapp": WHATSAPP}


def rendering_of(channel: str) -> Rendering:
    """Return how text is written on a channel; one that is not ours gets it without markup."""
    return _RENDERINGS.get(channel, PLAIN)
