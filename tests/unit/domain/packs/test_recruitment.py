"""Who does a task: explicit, then clear keywords, then a model, then the fallback rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.config.defaults import default_config
from agent_fabric.domain.ids import SpecialistId
from agent_fabric.domain.packs.recruitment import (
    ASSISTANT,
    CLEAR_RATIO,
    MAX_SPECIALISTS,
    Evidence,
    Recruitment,
    RoutingMethod,
    Specialist,
    by_fallback,
    by_keywords,
    by_model,
    by_name,
    weigh,
)
from agent_fabric.domain.tools.capabilities import CAPABILITY_KEYWORDS

ENGINEERING, RESEARCH = SpecialistId("engineering"), SpecialistId("research")


def built_in() -> list[Specialist]:
    return [
        Specialist(
            specialist_id=SpecialistId(name),
            description=each.description,
            keywords=each.keywords,
            capabilities=each.capabilities,
        )
        for name, each in default_config().specialists.items()
    ]


def chosen(prompt: str) -> Recruitment | None:
    return by_keywords(weigh(prompt, built_in(), CAPABILITY_KEYWORDS))


@pytest.mark.proves("AF-041", "AF-170", "C04")
@pytest.mark.parametrize(
    ("prompt", "who"),
    [
        ("build a small API", "engineering"),
        ("Create a tiny FastAPI app with /health and unit tests, runnable with uvicorn.", "engineering"),
        ("fix the failing tests in parser.py", "engineering"),
        ("Write hello.py that prints the first ten primes, and run it.", "engineering"),
        ("Mini systematic review of post-quantum crypto performance.", "research"),
        ("systematic review of X", "research"),
        ("What does the literature say about caffeine and sleep? Cite your sources.", "research"),
        ("What did we find in earlier runs about the deploy problem?", "enterprise_research"),
    ],
)
def test_the_words_of_a_task_are_clear(prompt: str, who: str) -> None:
    choice = chosen(prompt)
    assert choice is not None
    assert (choice.specialist_ids, choice.method) == ((who,), RoutingMethod.KEYWORDS)
    assert choice.reasons


@pytest.mark.proves("AF-044", "AF-045")
def test_a_task_that_needs_two_gets_two_in_the_order_of_their_mention() -> None:
    choice = chosen(
        "Do a literature review of the evidence on rate limiting algorithms with citations from your sources, then "
        "implement the best one as a Python library with a function and a unit test."
    )
    assert choice is not None
    assert choice.specialist_ids == ("research", "engineering")
    assert set(choice.required_capabilities) == {"software", "web_research"}


@pytest.mark.parametrize("prompt", ["hello", "", "…", "please help me", "42"])
def test_a_task_that_says_nothing_is_left_to_a_model(prompt: str) -> None:
    assert chosen(prompt) is None


@pytest.mark.proves("AF-041")
@pytest.mark.parametrize(
    ("prompt", "who"),
    [
        ("def f(x):\n  return x", ENGINEERING),
        ("```\nx = 1\n```", ENGINEERING),
        ("why does main() hang", ENGINEERING),
        ("hello", ASSISTANT),
        ("", ASSISTANT),
    ],
)
def test_without_any_keyword_code_goes_to_engineering_and_the_rest_to_the_assistant(prompt: str, who: str) -> None:
    evidence = weigh(prompt, [replace_keywords(each) for each in built_in()], CAPABILITY_KEYWORDS)
    choice = by_keywords(evidence) or by_fallback(evidence, "nothing else")
    assert choice is not None
    assert choice.specialist_ids == (who,)


def replace_keywords(each: Specialist) -> Specialist:
    return Specialist(specialist_id=each.specialist_id, description="", capabilities=each.capabilities)


@pytest.mark.parametrize("text", ["tests", "Testing", "TEST!", "a test, really", "(tested)"])
def test_endings_case_and_punctuation_do_not_matter(text: str) -> None:
    assert weigh(text, [keyed("test")], {}).matched == {"one": ("test",)}


@pytest.mark.parametrize("text", ["contest", "testament", "testers' guild", "late st", "te st"])
def test_a_part_of_a_word_is_no_keyword(text: str) -> None:
    assert weigh(text, [keyed("test")], {}).matched == {}


def keyed(*keywords: str, who: str = "one") -> Specialist:
    return Specialist(specialist_id=SpecialistId(who), description="", keywords=keywords)


def test_a_phrase_counts_as_many_times_as_it_has_words() -> None:
    evidence = weigh("a systematic  review, in C++", [keyed("systematic review", "c++")], {})
    assert evidence.score(SpecialistId("one")) == 3


@pytest.mark.proves("AF-040")
def test_what_a_person_names_is_taken_as_it_is() -> None:
    assert by_name([RESEARCH]).specialist_ids == (RESEARCH,)
    assert by_name([RESEARCH]).method == "explicit"


def test_what_a_model_makes_up_does_not_count() -> None:
    evidence = weigh("x", built_in(), {})
    assert by_model(evidence, ["wizard", "; rm -rf /"]) is None
    choice = by_model(evidence, ["research", "wizard", "research", "engineering"])
    assert choice is not None
    assert (choice.specialist_ids, choice.method) == (("research", "engineering"), RoutingMethod.MODEL)


words = st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "red", "green", "blue"])
people = st.lists(
    st.tuples(st.lists(words, max_size=4), st.lists(st.sampled_from("ABCDE"), max_size=3)), min_size=1, max_size=6
).map(
    lambda rows: [
        Specialist(
            specialist_id=SpecialistId(f"s{index}"),
            description="",
            keywords=tuple(dict.fromkeys(keys)),
            capabilities=tuple(dict.fromkeys(abilities)),
        )
        for index, (keys, abilities) in enumerate(rows)
    ]
)
tables = st.dictionaries(st.sampled_from("ABCDE"), st.lists(words, min_size=1, max_size=3), max_size=5)


@pytest.mark.proves("AF-043", "AF-044")
@given(st.lists(words, max_size=12).map(" ".join), people, tables)
def test_any_choice_is_sound(prompt: str, specialists: list[Specialist], table: dict[str, list[str]]) -> None:
    evidence = weigh(prompt, specialists, table)
    choice = by_keywords(evidence)
    assert choice == by_keywords(weigh(prompt, specialists, table)), "the same task, the same choice"
    if choice is None:
        choice = by_fallback(evidence, "not clear")
        assert choice is not None, "somebody always does it"
        assert len(choice.specialist_ids) == 1
    require_sound(choice, evidence, specialists)


def require_sound(choice: Recruitment, evidence: Evidence, specialists: list[Specialist]) -> None:
    known = {each.specialist_id: each for each in specialists}
    who = choice.specialist_ids
    assert 1 <= len(who) == len(set(who)) <= MAX_SPECIALISTS
    assert set(who) <= set(known)
    best = max((evidence.score(each) for each in known), default=0)
    if len(who) == 1:
        assert evidence.score(who[0]) == best, "nobody has more words"
        if choice.method is RoutingMethod.KEYWORDS and best:
            others = [evidence.score(each) for each in known if each != who[0]]
            assert all(best >= CLEAR_RATIO * other for other in others)
    else:
        required = set(choice.required_capabilities)
        covered = [set(known[each].capabilities) & required for each in who]
        able = set().union(*(set(each.capabilities) for each in specialists)) & required
        assert set().union(*covered) == able or len(who) == MAX_SPECIALISTS, "all that anybody can do is covered"
        places = [evidence.mentions[each] for each in who]
        assert places == sorted(places)


@given(st.text(max_size=400))
def test_no_text_breaks_it(prompt: str) -> None:
    evidence = weigh(prompt, built_in(), CAPABILITY_KEYWORDS)
    assert by_keywords(evidence) or by_fallback(evidence, "x")


def test_a_huge_task_is_weighed_at_once() -> None:
    assert weigh("class def import " * 300_000, built_in(), CAPABILITY_KEYWORDS).code_like is False


@pytest.mark.parametrize(
    ("keyword", "text"),
    [("天气", "今天天气怎么样"), ("cafe\u0301", "a CAFÉ review"), ("ﬁsh", "fishing"), ("STRASSE", "in der Straße")],
)
def test_keywords_of_any_script_and_spelling_are_found(keyword: str, text: str) -> None:
    assert weigh(text, [keyed(keyword)], {}).matched


def test_a_keyword_that_is_listed_twice_counts_once() -> None:
    evidence = weigh("the weather", [keyed("weather", "Weather", "weather ", " WEATHER")], {})
    assert evidence.score(SpecialistId("one")) == 1
