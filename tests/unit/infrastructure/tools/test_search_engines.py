"""What search engines give, whoever they are. Both engines' rows are converted here, without a network."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.application.ports.web import SearchHit, WebError
from agent_fabric.infrastructure.tools.search_engines import MAX_QUERY_CHARS, hits_from, query_from

unhurried = settings(deadline=None)

ROWS: list[Any] = [
    {
        "title": "Sea  otter\n- Wikipedia",
        "href": "https://en.wikipedia.org/wiki/Sea_otter",
        "body": "A marine\u00a0mammal",
    },
    {"title": "Again", "href": "https://en.wikipedia.org/wiki/Sea_otter#Diet", "body": "the same page"},
    {"title": "", "href": "http://otters.example/", "body": None},
    {"title": "Slash", "href": "http://otters.example", "body": ""},
    {"title": "Script", "href": "javascript:alert(1)"},
    {"title": "File", "href": "file:///etc/passwd"},
    {"title": "Broken", "href": "http://[::1"},
    {"title": "No address"},
    "garbage",
    None,
    {"title": 5, "href": "https://kelp.example/", "body": ["x"]},
]


def test_rows_become_pages_each_once_and_only_from_the_web() -> None:
    assert hits_from(ROWS, limit=10, url_key="href", snippet_key="body") == [
        SearchHit(
            title="Sea otter - Wikipedia", url="https://en.wikipedia.org/wiki/Sea_otter", snippet="A marine mammal"
        ),
        SearchHit(title="http://otters.example/", url="http://otters.example/", snippet=""),
        SearchHit(title="https://kelp.example/", url="https://kelp.example/", snippet=""),
    ]


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 9])
def test_no_more_pages_than_asked_for(limit: int) -> None:
    assert len(hits_from(ROWS, limit=limit, url_key="href", snippet_key="body")) == min(limit, 3)


def test_an_address_that_is_too_long_or_has_control_characters_is_dropped_and_titles_are_short() -> None:
    urls = ["https://a.org/" + "y" * 5_000, "https://a.org/\rx", "https://a.org/a\tb", "https://a.org/" + "z" * 3_000]
    (hit,) = hits_from([{"url": url} for url in urls], limit=9, url_key="url", snippet_key="content")
    assert hit.url == urls[-1]
    assert len(hit.title) == 300


@unhurried
@given(
    rows=st.lists(
        st.dictionaries(st.sampled_from(["url", "title", "content"]), st.text(max_size=20) | st.none() | st.integers())
        | st.none()
        | st.text(max_size=5)
    )
)
def test_any_rows_are_survived(rows: list[Any]) -> None:
    assert len(hits_from(rows, limit=5, url_key="url", snippet_key="content")) <= 5


def test_a_query_is_put_on_one_line() -> None:
    assert query_from("  sea\n otters ") == "sea otters"


@pytest.mark.parametrize("text", ["", " \n", "x" * (MAX_QUERY_CHARS + 1)])
def test_a_query_that_no_engine_takes_is_explained(text: str) -> None:
    with pytest.raises(WebError, match="query"):
        query_from(text)
