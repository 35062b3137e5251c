"""Long answers become messages that every platform takes (CH-9)."""

import random
import re
import time

import pytest

from agent_fabric.domain.channels.graphemes import may_cut
from agent_fabric.domain.channels.markdown import BlockKind, Style, read_markdown, read_spans
from agent_fabric.domain.channels.rendering import (
    DISCORD,
    SLACK,
    TELEGRAM,
    WHATSAPP,
    WORD_JOINER,
    Rendering,
)
from agent_fabric.domain.channels.splitting import split_blocks, split_text
from effort import effort, report

DOCUMENTS = effort(150, 2_500)
"""For each of the four platforms."""
PLATFORMS = {"telegram": TELEGRAM, "discord": DISCORD, "slack": SLACK, "whatsapp": WHATSAPP}
WORDS = (
    "word", "*", "**", "_", "`", "```", "~~", "e\u0301", "👩‍👩‍👧", "🇩🇪🇫🇷", "<b>", "&amp;", "@ann",
    "[x](https://a.b)", "\\*", "|", ">", "한글",
)  # fmt: skip


def _document(chance: random.Random) -> str:
    lines = []
    for _ in range(chance.randrange(1, 14)):
        words = " ".join(chance.choice(WORDS) for _ in range(chance.randrange(12)))
        kind = chance.randrange(7)
        lines.append(
            {
                0: words,
                1: f"# {words}",
                2: f"{'  ' * chance.randrange(4)}- {words}",
                3: f"```python\n{words}\n\n{words * chance.randrange(9)}\n```",
                4: f"> {words}",
                5: "x" * chance.randrange(300) + words,
                6: "",
            }[kind]
        )
    return "\n".join(lines)


def _bare(text: str) -> str:
    return re.sub(rf"[\s{WORD_JOINER}]", "", text)


@pytest.mark.parametrize("name", PLATFORMS)
def test_parts_are_within_limits_balanced_and_complete(name: str) -> None:
    rendering: Rendering = PLATFORMS[name]
    seed = effort(7, random.randrange(2**32))
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(DOCUMENTS):
        blocks = read_markdown(_document(chance))
        limit = chance.choice((80, 200, 700))
        groups = split_blocks(blocks, rendering, limit=limit)
        for group in groups:
            assert rendering.size(group) <= limit
            text = rendering.render(group)
            if name != "telegram":
                assert text.count("```") % 2 == 0
            else:
                assert text.count("<pre>") == text.count("</pre>")
        whole = "".join(each.text for each in blocks)
        assert _bare("".join(each.text for group in groups for each in group)) == _bare(whole)
    report("documents split for a platform", DOCUMENTS)


def test_no_character_that_people_see_is_torn() -> None:
    text = "👩‍👩‍👧🇩🇪🇫🇷e\u0301" * 60
    groups = split_blocks(read_markdown(text), TELEGRAM, limit=50)
    at = 0
    for group in groups:
        at += sum(len(each.text) for each in group)
        assert may_cut(text, at)
    assert at == len(text)


def test_more_than_five_parts_are_the_first_one_and_a_file() -> None:
    text = "\n\n".join("paragraph " * 100 for _ in range(40))
    split = split_text(text, DISCORD)
    assert (len(split.parts), split.file) == (1, text)
    assert split_text("short", DISCORD).file == ""


def test_what_a_model_writes_is_understood() -> None:
    blocks = read_markdown("# Title\n\ntext **bold** and `code`\n\n- one\n  2. two\n\n```py\nx = 1\n```\n> said\n---")
    assert [each.kind for each in blocks] == [
        BlockKind.HEADING,
        BlockKind.PARAGRAPH,
        BlockKind.ITEM,
        BlockKind.ITEM,
        BlockKind.CODE,
        BlockKind.QUOTE,
        BlockKind.RULE,
    ]
    assert {Style.BOLD} in [set(span.styles) for span in blocks[1].spans]
    assert "".join(span.text for span in read_spans("snake_case_name 2 * 3 * 4")) == "snake_case_name 2 * 3 * 4"


def test_markup_of_others_stays_text() -> None:
    blocks = read_markdown("<b>@channel & <!here> `</code>`")
    assert TELEGRAM.render(blocks) == f"&lt;b&gt;@{WORD_JOINER}channel &amp; &lt;!here&gt; <code>&lt;/code&gt;</code>"
    assert TELEGRAM.render(read_markdown("clone git@example.org:a.git")) == "clone git@example.org:a.git"
    assert "<!here>" not in SLACK.render(blocks)
    assert "@channel" not in DISCORD.render(blocks)


def test_a_link_shows_where_it_leads() -> None:
    shown = TELEGRAM.render(read_markdown("[your bank](https://evil.example/x)"))
    assert shown == '<a href="https://evil.example/x">your bank</a> (https://evil.example/x)'


@pytest.mark.parametrize(
    "hostile", ["*" * 20_000, "_a " * 10_000, "`" * 20_000, "[" * 20_000, "**a_" * 8_000, "> " * 9_000]
)
def test_hostile_text_is_read_in_proportion_to_its_length(hostile: str) -> None:
    before = time.process_time()
    read_markdown(hostile)
    assert time.process_time() - before < 2
