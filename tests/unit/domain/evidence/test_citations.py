"""The citation check: what counts as quoted, which addresses are the same, and what a model is told."""

import random
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_fabric.domain.evidence.citations import (
    MAX_PROBLEMS,
    PageText,
    address_of,
    likeliest,
    problems_with_citations,
    same_address,
    urls_in,
)
from agent_fabric.domain.tools.findings import Source

PAGE = (
    "The “quick” brown fox — so it’s said — jumps over the lazy dog.\n\n"
    "  It does so in 3\u00a0sec\u00adonds, at a tem\u200bperature of 20\u202f°C; the ﬁnal result: naïve.\n"
    "In 2019 the committee found no effect. In 2021 it found a small effect (p = 0.04).\n"
    "- First item of a list\n- second item of it\n| Year | Deaths |\n|---|---|\n| 2020 | twelve hundred |\n"
)
URL = "https://example.org/fox"


def source(url: str = URL, text: str = PAGE, *, final_url: str = "", sha256: str = "") -> Source:
    return Source(
        url=url,
        final_url=final_url or url,
        title="A page",
        content_type="text/html",
        fetched_at=1_700_000_000.0,
        sha256=sha256 or f"{abs(hash(text)):064x}",
        text=text,
    )


@pytest.mark.proves("AF-126")
@pytest.mark.parametrize(
    "quote",
    [
        'The "quick" brown fox',
        "THE 'QUICK' BROWN FOX - SO IT'S SAID - JUMPS",
        "“jumps over the lazy dog.”",
        "the lazy dog. It does so in 3 seconds",
        "a temperature of 20 °C; the final result",
        "quick' brown fox ... over the lazy dog",
        "brown fox — so it’s […] jumps over the lazy dog",
        "In 2019 the committee (...) found a small effect",
        "it found a small effect (p = 0.04)",
        "the committee found no effect,",
        "First item of a list second item of it",
        "- second item of it | Year | Deaths",
        "2020 twelve hundred",
    ],
)
def test_a_quote_may_differ_in_typesetting_and_leave_something_out(quote: str) -> None:
    assert PageText(PAGE).has(quote)


@pytest.mark.proves("AF-126")
@pytest.mark.parametrize(
    "quote",
    [
        "",
        "   ...   ",
        "the fox",
        "20 °C",
        "The slow brown fox jumps",
        "jumps over the lazy dog ... brown fox — so it’s said",
        "In 2021 the committee found no effect",
        "In 2021 it ... no effect",
        "the committee ... effect",
        "naive final result of it",
        "rown fox — so it’s said — jumps over the lazy do",
    ],
)
def test_what_is_not_on_the_page_too_short_or_in_another_order_is_no_quote(quote: str) -> None:
    assert not PageText(PAGE).has(quote)


TRIAL = (
    "It was an ineffective treatment of insomnia, and sleep fell by 145 minutes in total after dose. "
    "Results were p > 0.05 in all groups. The change was -2.5 points and p<=0.01 in those over 1,250 days. "
    "A non-smoking group can't be compared; 12% of the patients left. Well… it works as expected here.\n"
    "- 5 apples a day\n> Said by a doctor once\n# What it means\nThe cause—smoking in bed—was found in 5-10 cases."
)


@pytest.mark.proves("AF-126")
@pytest.mark.parametrize(
    "quote",
    [
        "effective treatment of insomnia",
        "45 minutes in total after dose",
        "and sleep fell by 14",
        "It was an ineffective treat",
        "ineffective treatment ... 45 minutes in total after dose",
        "Results were p 0.05 in all groups",
        "Results were p < 0.05 in all groups",
        "Results were p > 0.05 in all group",
        "The change was 2.5 points",
        "2.5 points and p<=0.01",
        "5 points and p<=0.01 in those",
        "The change was -2",
        "=0.01 in those over 1,250 days",
        "250 days. A non-smoking group",
        "0.01 in those over 1",
        "smoking group can't be compared",
        "A non-smoking group can",
        "can't be compared; 12",
        "was found in 5",
        "10 cases. was found in",
    ],
)
def test_a_quote_neither_cuts_words_and_numbers_nor_drops_what_changes_the_meaning(quote: str) -> None:
    assert not PageText(TRIAL).has(quote)


@pytest.mark.parametrize(
    "quote",
    [
        "an ineffective treatment of insomnia",
        "sleep fell by 145 minutes",
        "Results were p > 0.05",
        "The change was −2.5 points",
        "-2.5 points and p<=0.01",
        "12% of the patients left.",
        "Well… it works as expected here.",
        "Well ... it works as expected",
        "as expected here. 5 apples a day Said by a doctor once What it means",
        "- 5 apples a day\n> Said by a doctor",
        "smoking in bed - was found",
        "cause -- smoking in bed",
        "was found in 5–10 cases",
        "ineffective treatment of insomnia … it works as expected here",
    ],
)
def test_a_quote_of_whole_words_is_found_also_with_the_dots_of_the_page(quote: str) -> None:
    assert PageText(TRIAL).has(quote)


def test_a_short_page_can_be_quoted_as_a_whole_and_not_in_part() -> None:
    assert PageText("It is so").has("It is so.")
    assert not PageText("It is so").has("is so")


def test_a_script_without_spaces_needs_fewer_characters() -> None:
    assert PageText("人工知能は便利です。").has("人工知能は")
    assert not PageText("人工知能は便利です。").has("便利")


@given(st.text(), st.text())
def test_no_text_and_no_quote_breaks_the_check(quote: str, text: str) -> None:
    PageText(text).has(quote)


WORDS = st.lists(st.text("abcdefghijklmnopqrstuvwxyzäöüß0123456789", min_size=1, max_size=12), min_size=8, max_size=60)


@given(WORDS, st.data())
def test_every_long_enough_run_of_words_is_quoted_however_it_is_typeset(words: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start + 1, len(words)))
    blank = data.draw(st.sampled_from([" ", "\n", " \t ", "\u00a0", "\u2009\u200b "]))
    quote = blank.join(words[start:end])
    styled = data.draw(st.sampled_from([quote, quote.upper(), f"“{quote}”", f"... {quote} …", quote + "."]))
    expected = sum(map(len, words[start:end])) >= 12 or end - start == len(words)
    if expected:
        assert PageText(" ".join(words)).has(styled)


@given(WORDS, st.randoms(use_true_random=False))
def test_words_that_do_not_occur_are_never_quoted(words: list[str], rng: random.Random) -> None:
    made_up = [*words]
    made_up.insert(rng.randrange(len(words)), "XQ-never-XQ")
    assert not PageText(" ".join(words)).has(" ".join(made_up))


def test_many_quotes_from_a_long_page_take_no_time() -> None:
    text = PAGE * 2_500
    started = time.process_time()
    page = PageText(text)
    assert all(page.has(f"In {year} the committee found no effect") for year in [2019] * 1_000)
    assert not page.has("nothing of the kind " * 200)
    assert len(text) > 500_000
    assert time.process_time() - started < 5


@pytest.mark.slow
@pytest.mark.parametrize("filler", [" ", ".", "\n", "-", "- ", "a", "'", "…", "|", "\t> ", "# ", "1,"])
def test_no_page_makes_the_check_slow(filler: str) -> None:
    page = PageText("The beginning of it" + filler * 300_000 + "x the end of it all")
    started = time.process_time()
    assert not any(page.has(quote) for quote in ("a short", "aaaaaaaaaaaaaaaa", "the beginning of it ... of it al"))
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.org", "HTTPS://Example.ORG/"),
        ("https://example.org:443/a/", "https://example.org/a"),
        ("http://example.org:80/a#part", "http://example.org/a"),
        ("https://example.org/a%7eb", "https://example.org/a~b"),
        ("https://example.org/%c3%a9?q=%C3%A9", "https://example.org/é?q=é"),
        ("https://bücher.example/", "https://xn--bcher-kva.example"),
        ("https://example.org./a", "https://example.org/a"),
        (" https://example.org/a ", "https://example.org/a"),
        ("http://[::1]:80/a", "http://[::1]/a"),
    ],
)
def test_spellings_of_one_address_are_the_same(one: str, other: str) -> None:
    assert same_address(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://example.org/", "https://example.org/"),
        ("https://example.org/a", "https://example.org/b"),
        ("https://example.org/a", "https://example.org/A"),
        ("https://example.org/a?x=1", "https://example.org/a?x=2"),
        ("https://example.org/a?utm_source=x", "https://example.org/a"),
        ("https://example.org:8443/", "https://example.org/"),
        ("https://www.example.org/", "https://example.org/"),
        ("https://example.org/a%2Fb", "https://example.org/a/b"),
        ("run:1", "run:2"),
    ],
)
def test_addresses_that_may_name_different_pages_are_not(one: str, other: str) -> None:
    assert not same_address(one, other)


@given(st.text())
@example("http://[")
@example("https://x:99999999/")
@example("//")
def test_the_form_of_an_address_is_final_and_nothing_breaks_it(text: str) -> None:
    assert address_of(address_of(text)) == address_of(text)
    urls_in(text)


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("see https://a.org/b.", ["https://a.org/b"]),
        (
            "(https://a.org/b), <https://c.org>; 'https://d.org/e'",
            ["https://a.org/b", "https://c.org", "https://d.org/e"],
        ),
        ("[a](https://a.org/w_(x)) and [https://b.org](https://b.org)", ["https://a.org/w_(x)", "https://b.org"]),
        ('![i](https://a.org/i.png "title") **https://b.org/c**', ["https://a.org/i.png", "https://b.org/c"]),
        ("[1]: https://a.org/b\n[2]: https://c.org/d_e", ["https://a.org/b", "https://c.org/d_e"]),
        ('<a href="https://a.org/?x=1&amp;y=2">x</a>', ["https://a.org/?x=1&y=2"]),
        ("https://web.archive.org/web/2020/https://a.org/", ["https://web.archive.org/web/2020/https://a.org/"]),
        ("https://a.org,https://b.org", ["https://a.org", "https://b.org"]),
        ("https://a.org/?q[]=1 HTTPS://B.org", ["https://a.org/?q[]=1", "HTTPS://B.org"]),
        ("詳細は https://a.org/路。次", ["https://a.org/路"]),
        ("nothing: http:// https://… ftp://a.org a.org/x doi:10.1/2 mailto:a@www.b.org www.html", []),
        ("www.a.org/x, (WWW.b.org) and https://www.c.org", ["www.a.org/x", "WWW.b.org", "https://www.c.org"]),
        ('<!DOCTYPE html PUBLIC "-//W3C" "http://w3.org/x.dtd"><svg xmlns="http://w3.org/svg">', []),
    ],
)
def test_addresses_are_found_in_text_and_markup(text: str, urls: list[str]) -> None:
    assert list(dict.fromkeys(map(likeliest, urls_in(text)))) == urls


def test_addresses_are_found_anywhere_in_a_value_once_each() -> None:
    value = {
        "a": ["https://a.org", {"b": "x https://b.org y", "https://c.org": None}],
        "n": 3,
        "again": "https://a.org",
    }
    assert urls_in(value) == ("https://a.org", "https://b.org", "https://c.org")


ADDRESSES = st.builds(
    lambda host, path: f"https://{host}.example/{path}",
    st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=8),
    st.text("abcdefghijklmnopqrstuvwxyz0123456789/-~=", max_size=20).map(lambda path: path.rstrip("-~")),
)


@given(ADDRESSES, st.sampled_from(["{}", "see {}.", "({})", "[x]({})", "<{}>", "“{}”", "**{}**", "{}, and", "* {}\n"]))
def test_every_address_is_found_as_it_is_whatever_surrounds_it(url: str, around: str) -> None:
    (mention,) = urls_in(around.format(url))
    assert likeliest(mention) == url


@pytest.mark.parametrize(
    "text",
    [
        "see {}",
        "see {}.",
        "[it]({}) and",
        "[it]({}).",
        "<{}>",
        "{}—dash",
        "| {}|x|",
        "{}[1]",
        "{}[^2], and",
        "{}'s",
        "{}’s author",
        "({}), **{}** and {}&amp; so",
        "![i]({})[^1]",
    ],
)
@pytest.mark.parametrize(
    "url",
    [
        "https://a.org/wiki/Washington,_D.C.",
        "https://a.org/w_(x)",
        "https://a.org/Michelson–Morley",
        "https://a.org/b",
        "https://a.org/q?",
        "https://a.org/?q[]=1",
    ],
)
def test_a_fetched_page_is_recognised_whatever_stands_after_its_address(text: str, url: str) -> None:
    payload = cited({"url": url, "quote": QUOTE}, summary=text.replace("{}", url))
    assert problems_with_citations(payload, [source(url)], {}) == ()


@pytest.mark.parametrize("mention", ["/b-c", "/b.c", "/b/c", "/b_c", "/b?c", "/b,c", "/b(c)", "/b–c", "/"])
def test_another_address_is_not_read_as_the_fetched_one(mention: str) -> None:
    payload = cited({"url": "https://a.org/b", "quote": QUOTE}, summary=f"see https://a.org{mention}.")
    (problem,) = problems_with_citations(payload, [source("https://a.org/b")], {})
    assert problem.startswith(f"https://a.org{mention} ('summary') was not fetched")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_address_without_a_scheme_is_held_against_both(scheme: str) -> None:
    pages = [source(), source(f"{scheme}://www.a.org/x")]
    payload = cited({"url": "www.a.org/x", "quote": QUOTE}, summary="www.a.org/x and www.b.org/y.")
    (problem,) = problems_with_citations(payload, pages, {})
    assert problem.startswith("www.b.org/y ('summary') was not fetched")


def test_who_cannot_fetch_is_not_told_to() -> None:
    assert problems_with_citations({"summary": "s"}, [], {}, can_fetch=False) == ()
    payload = cited({"url": "https://o.org", "quote": QUOTE}, {"quote": QUOTE}, more="https://o.org/x")
    problems = problems_with_citations(payload, [], {"r.md": ["https://o.org/y"]}, can_fetch=False)
    assert len(problems) == 4
    assert not any("fetch_url" in problem for problem in problems)


@pytest.mark.slow
def test_addresses_without_end_take_no_time() -> None:
    started = time.process_time()
    text = " ".join("https://a.org/" + mark * 100_000 for mark in ("|", ".", "—", "[1]", "'s", ")", "("))
    assert problems_with_citations(cited(summary=text), [source()], {})
    assert time.process_time() - started < 10


# ── the check ─────────────────────────────────────────────────────────────────────────────────────────────────────────

QUOTE = "jumps over the lazy dog"


def cited(*citations: dict[str, str], **more: object) -> dict[str, object]:
    return {"summary": "s", "citations": list(citations), **more}


@pytest.mark.proves("AF-126")
def test_quotes_from_fetched_pages_are_no_problem() -> None:
    payload = cited(
        {"url": "https://EXAMPLE.org/fox#top", "quote": QUOTE, "claim": "see https://example.org/fox/"},
        {"url": "https://example.org/moved-here", "quote": QUOTE, "claim": "it jumps"},
    )
    moved = source("https://example.org/old", final_url="https://example.org/moved-here")
    assert problems_with_citations(payload, [source(), moved], {"report.md": [URL]}) == ()


def test_an_address_in_a_quote_is_the_pages_word_and_needs_no_fetching() -> None:
    page = source(text="More at https://elsewhere.example/x, says the page.")
    payload = cited({"url": URL, "quote": "More at https://elsewhere.example/x, says the page", "claim": "c"})
    assert problems_with_citations(payload, [page], {}) == ()


@pytest.mark.proves("AF-126")
@pytest.mark.parametrize(
    ("payload", "files", "told"),
    [
        ({"summary": "s"}, {}, "There are no citations"),
        (cited(), {}, "There are no citations"),
        ({"citations": "https://example.org/fox"}, {}, "There are no citations"),
        (cited({"url": "https://other.org", "quote": QUOTE}), {}, "https://other.org (citation 1) was not fetched"),
        (cited({"url": "", "quote": QUOTE}), {}, "Citation 1 has no url"),
        (cited({"url": URL, "quote": "  "}), {}, "Citation 1 has no quote"),
        (cited({"url": URL}), {}, "Citation 1 has no quote"),
        (cited({"url": URL, "quote": "jumps under the lazy dog"}), {}, "The quote of citation 1 is not on the page"),
        (
            cited({"url": URL, "quote": QUOTE, "claim": "https://o.org/x shows it"}),
            {},
            "https://o.org/x ('citations') was not fetched",
        ),
        (
            cited({"url": URL, "quote": QUOTE}, notes={"deep": ["(https://o.org/x)"]}),
            {},
            "https://o.org/x ('notes') was not fetched",
        ),
        (
            cited({"url": URL, "quote": QUOTE}),
            {"a/report.md": [URL, "https://o.org/x"]},
            "https://o.org/x (a/report.md) was not fetched",
        ),
    ],
)
def test_each_problem_says_where_it_is_and_what_to_do(
    payload: dict[str, object], files: dict[str, list[str]], told: str
) -> None:
    (problem,) = problems_with_citations(payload, [source()], files)
    assert problem.startswith(told)
    assert problem.endswith(".")


def test_a_page_that_was_fetched_twice_may_be_quoted_as_it_was_at_either_time() -> None:
    sources = [source(text="The first version of the page."), source(text="Another version of the page.")]
    payload = cited({"url": URL, "quote": "The first version"}, {"url": URL, "quote": "Another version of"})
    assert problems_with_citations(payload, sources, {}) == ()


def test_an_unfetched_address_is_told_once_and_many_problems_are_counted() -> None:
    everywhere = "https://o.org/x and https://o.org/x#y"
    (problem,) = problems_with_citations(
        cited({"url": URL, "quote": QUOTE}, a=everywhere, b=everywhere), [source()], {}
    )
    assert "https://o.org/x ('a')" in problem
    many = problems_with_citations(cited(*({"url": f"https://o.org/{n}" + "x" * 999} for n in range(40))), [], {})
    assert len(many) == MAX_PROBLEMS + 1
    assert many[-1] == "and 30 more problems of this kind."
    assert sum(map(len, many)) < 6_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just("https://o.org/x"),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["summary", "citations", "x"]), JSON), st.lists(JSON, max_size=3))
def test_whatever_a_model_sends_is_judged_and_an_unfetched_address_never_passes(
    payload: dict[str, object], citations: list[object]
) -> None:
    for each in (payload, {**payload, "citations": citations}):
        problems = problems_with_citations(each, [source()], {})
        assert problems  # nothing here cites the page
        if "https://o.org/x" in urls_in({key: value for key, value in each.items() if key != "citations"}):
            assert any("https://o.org/x" in problem for problem in problems)
