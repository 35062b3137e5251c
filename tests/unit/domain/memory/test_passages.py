"""Passages put together are the document, and end where a reader would end them."""

import random

import pytest

from agent_fabric.domain.memory.passages import (
    MAX_CHARS,
    MIN_CHARS,
    Passage,
    plan_replacement,
    sections_in,
    split_passages,
)

SENTENCE = "The otter sleeps in the river and holds the paw of its neighbour. "


def section(name: str, sentences: int) -> str:
    return f"## {name}\n\n{SENTENCE * sentences}\n\n"


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.proves("ME-3")
def test_passages_leave_nothing_out_and_keep_their_size(seed: int) -> None:
    chance = random.Random(seed)
    pieces = (
        "\n",
        "\n\n",
        " ",
        "# Top\n",
        "### Deep\n",
        "```\n",
        "x" * 2_000,
        SENTENCE,
        "漢字かな。",
        "é́ ",
        "\r\n",
        "\u2028",
    )
    text = "".join(chance.choice(pieces) * chance.randint(1, 9) for _ in range(chance.randint(0, 120)))
    passages = split_passages(text)
    assert "".join(passage.text for passage in passages) == (text if text.strip() else "")
    for ordinal, passage in enumerate(passages):
        assert (passage.ordinal, text[passage.start : passage.end]) == (ordinal, passage.text)
        assert len(passage.text.rstrip()) <= MAX_CHARS
    assert all(len(passage.text) >= MIN_CHARS for passage in passages[:-1])


def test_a_passage_ends_at_a_heading_where_it_can() -> None:
    passages = split_passages("# Handbook\n\n" + section("Water", 17) + section("Fish", 17) + section("Sleep", 3))
    assert [passage.text.lstrip("# ").split("\n")[0] for passage in passages] == ["Handbook", "Fish"]
    assert [passage.headings for passage in passages] == [("Handbook",), ("Handbook",)]


def test_a_long_section_keeps_its_headings_and_ends_between_sentences() -> None:
    passages = split_passages("# Handbook\n\n" + section("Fish", 90))
    assert len(passages) == 4
    assert all(passage.text.rstrip().endswith("neighbour.") for passage in passages)
    assert {passage.headings for passage in passages[1:]} == {("Handbook", "Fish")}
    assert passages[1].text_to_index("Handbook").startswith("Handbook › Fish\nThe otter")
    assert passages[1].text_to_index("otters.md").startswith("otters.md › Handbook › Fish\nThe otter")


def test_small_sections_share_a_passage_and_the_headings_they_have_in_common() -> None:
    (passage,) = split_passages("# Handbook\n\n" + section("Water", 2) + section("Fish", 2))
    assert passage.headings == ("Handbook",)


def test_a_heading_in_code_is_none() -> None:
    text = "# One\n\n```sh\n# not a heading\n```\n\n## Two ##\ntext\n# Three\n"
    assert [each.headings for each in sections_in(text)] == [("One",), ("One", "Two"), ("Three",)]


@pytest.mark.parametrize("text", ["", " ", "\n\n\t"])
def test_nothing_to_read_gives_no_passage(text: str) -> None:
    assert split_passages(text) == []


def test_chinese_text_is_cut_behind_its_full_stops() -> None:
    passages = split_passages("水獭睡在河里，握着邻居的爪子。" * 300)
    assert len(passages) > 2
    assert all(passage.text.endswith("。") for passage in passages)


@pytest.mark.proves("ME-2")
def test_only_passages_that_changed_are_replaced() -> None:
    parts = [section(name, 17) for name in ("Water", "Fish", "Sleep")]
    before = split_passages("".join(parts))
    stored = [(10 + passage.ordinal, passage.hash("T")) for passage in before]
    parts[1] = parts[1].replace("otter", "beaver")
    after = split_passages("".join(parts))
    plan = plan_replacement(stored, after, "T")
    assert [(number, passage.ordinal) for number, passage in plan.kept] == [(10, 0), (12, 2)]
    assert [passage.ordinal for passage in plan.added] == [1]
    assert plan.removed == [11]


def test_a_new_title_replaces_all_passages() -> None:
    passages = [Passage(ordinal=0, start=0, end=1, text="a"), Passage(ordinal=1, start=1, end=2, text="a")]
    stored = [(1, passages[0].hash("T")), (2, passages[1].hash("T"))]
    assert plan_replacement(stored, passages, "T").removed == []
    assert plan_replacement(stored, passages[:1], "T").removed == [2]
    assert plan_replacement(stored, passages, "New").removed == [1, 2]
