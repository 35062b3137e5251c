"""Which passages answer a question."""

import random

import pytest

from agent_fabric.domain.ids import DocumentId
from agent_fabric.domain.memory.ranking import (
    Candidate,
    Ranked,
    follow_up,
    merge_neighbours,
    rank,
    without_duplicates,
)
from agent_fabric.domain.memory.terms import fold, language_of, question_terms, terms_in

ONE, TWO = DocumentId("1" * 16), DocumentId("2" * 16)


def candidate(text: str, meaning: float | None = None, ordinal: int = 0, document: DocumentId = ONE) -> Candidate:
    return Candidate(document, ordinal, text, meaning)


def texts(found: list[Ranked]) -> list[str]:
    return [each.candidate.indexed for each in found]


def test_words_are_folded_shortened_and_paired_where_there_are_no_spaces() -> None:
    assert terms_in("The Köhler's otters were sleeping") == ["kohler", "s", "otter", "sleep"]
    assert terms_in("東京の天気 in Köln") == ["東京", "京の", "の天", "天気", "koln"]
    assert terms_in("天") == ["天"]
    assert fold("ＡＢＣ ﬁ") == "abc fi"
    assert question_terms("what is it") == {"what", "is", "it"}
    assert question_terms("What is the otter?") == {"otter"}
    assert terms_in("store stores stored storing, company companies") == ["stor"] * 4 + ["compan"] * 2
    assert question_terms("李娜的钥匙在哪里？") == {"李娜", "钥匙"}
    assert question_terms("在哪") == {"在哪"}


def test_the_language_of_a_question_is_told_by_its_common_words() -> None:
    assert language_of("Which dentist does Nora go to?") == "en"
    assert language_of("langsame Datensicherung in der Nacht") == "de"
    assert language_of("Datenschutz bei Kundendaten") == "de"
    assert language_of("make pictures smaller") == ""
    assert language_of("李娜的钥匙") == language_of("東京の天気") == "without spaces"


def test_a_paraphrase_is_found_by_its_meaning_alone() -> None:
    found = rank(
        "How do I get paid back for a train ride?",
        [
            candidate("Train timetable", 0.02),
            candidate("Expenses of journeys are refunded within a month", 0.7),
        ],
    )
    assert texts(found) == ["Expenses of journeys are refunded within a month"]


def test_of_two_that_mean_the_same_the_one_with_the_words_wins() -> None:
    found = rank("error E-4711", [candidate("error E-4712", 0.62), candidate("error E-4711", 0.6)])
    assert texts(found) == ["error E-4711", "error E-4712"]
    assert found[0].words == 1.0 > found[1].words


def test_a_rare_word_counts_for_more_than_one_that_all_have() -> None:
    common = [candidate(f"budget plan {number}") for number in range(9)]
    found = rank("budget otter", [*common, candidate("otter")], min_words=0.0)
    assert texts(found)[0] == "otter"


def test_one_shared_word_does_not_outweigh_meaning() -> None:
    question = "How do I get money back for the train to a customer?"
    found = rank(
        question,
        [
            candidate("The train has a bar", 0.3),
            candidate("Journeys are refunded", 0.45),
            candidate("Customer list", 0.3),
        ],
    )
    assert texts(found)[0] == "Journeys are refunded"


@pytest.mark.proves("ME-7")
def test_a_known_name_is_not_enough_if_nothing_else_of_the_question_is_known() -> None:
    kept = "Nora mentioned that the violin is kept in the attic"
    assert rank("Which dentist does Nora go to about her toothache?", [candidate(kept, 0.38)]) == []
    assert rank("Where does Nora keep the violin?", [candidate(kept, 0.38)])
    # In another language few words are known even of what is there, and it is less near.
    assert rank("Wo hat sie ihr Instrument hingelegt?", [candidate(kept, 0.25)])


@pytest.mark.proves("ME-7")
def test_the_less_of_a_question_is_known_the_nearer_a_passage_has_to_be() -> None:
    offices = "It is the key of the office in Graz"
    assert rank("What is the key of the office?", [candidate(offices, 0.15)])
    assert rank("How do I open a bureau?", [candidate(offices, 0.19)]) == []
    assert rank("How do I open a bureau?", [candidate(offices, 0.21)])  # no name draws it near
    assert rank("Wie komme ich bei euch herein?", [candidate(offices, 0.18)])
    assert rank("Wie komme ich bei euch herein?", [candidate(offices, 0.17)]) == []


def test_a_word_that_stands_nowhere_hardly_weakens_the_others() -> None:
    near, right = "Somebody took the folder", "Ilkay lent the tax folder to Lena"
    found = rank("Who borrowed the tax folder from Ilkay?", [candidate(near, 0.4), candidate(right, 0.2)])
    assert texts(found) == [right, near]


def test_words_in_a_long_passage_count_for_less() -> None:
    long = "print and work " + "and something else " * 200
    found = rank("print work", [candidate(long, 0.2), candidate("A short note on print and work", 0.2)])
    assert [each.words for each in found] == [1.0, 1.0]
    assert found[0].score > 1.5 * found[1].score


def test_what_fits_far_less_than_the_best_is_left_out() -> None:
    found = rank("violin attic", [candidate("violin attic", 0.8), candidate("something else", 0.2)])
    assert texts(found) == ["violin attic"]


def test_below_the_threshold_memory_has_nothing() -> None:
    assert rank("Who won the cup?", [candidate("Expenses are refunded", 0.15)]) == []
    assert rank("pool", [candidate("The pool", 0.05)]) == []
    assert rank("Who won the cup?", [candidate("Expenses are refunded")]) == []
    assert rank("", []) == []


def test_without_vectors_words_decide() -> None:
    found = rank("refunded expenses", [candidate("Expenses are refunded within a month"), candidate("Something else")])
    assert [(each.score, each.words) for each in found] == [(1.0, 1.0)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.proves("ME-6")
def test_scores_lie_between_0_and_1_and_fall(seed: int) -> None:
    chance = random.Random(seed)
    words = ["otter", "river", "paw", "fish", "水獭", "schlaf", "é"]
    candidates = [
        candidate(" ".join(chance.choices(words, k=8)), chance.choice((None, chance.uniform(-1, 1.001))), number)
        for number in range(30)
    ]
    scores = [each.score for each in rank(" ".join(chance.choices(words, k=3)), candidates)]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@pytest.mark.proves("ME-8")
def test_a_near_duplicate_is_left_out() -> None:
    text = "Handbook\nExpenses of journeys are refunded within one month after the form has been signed by the lead"
    found = rank(
        "expenses", [candidate(text, 0.9), candidate(text + ".", 0.8, 1, TWO), candidate("Other\nexpenses", 0.7)]
    )
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert texts(without_duplicates(found)) == [text, "Other\nexpenses"]


@pytest.mark.proves("ME-8")
def test_neighbours_become_one_excerpt() -> None:
    ranked = [
        Ranked(candidate("", None, ordinal, document), score, 0.0)
        for document, ordinal, score in (
            (ONE, 4, 0.9),
            (TWO, 1, 0.8),
            (ONE, 3, 0.7),
            (ONE, 9, 0.6),
            (TWO, 2, 0.95),
        )
    ]
    assert [(each.document_id, each.first, each.last, each.score) for each in merge_neighbours(ranked)] == [
        (TWO, 1, 2, 0.95),
        (ONE, 3, 4, 0.9),
        (ONE, 9, 9, 0.6),
    ]


def test_a_follow_up_is_looked_for_together_with_the_question_before() -> None:
    assert follow_up("And on Sundays?", "When is the pool open?") == "When is the pool open?\nAnd on Sundays?"
    assert follow_up("When?", "  ") == "When?"
