"""What a server answers, as a result."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.infrastructure.tools.mcp.tool_conversion import MAX_TEXT_CHARS, answer_from


def test_texts_are_joined() -> None:
    answer = answer_from({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})
    assert answer.output == {"text": "a\nb"}


def test_a_structured_answer_is_not_told_twice() -> None:
    text = {"type": "text", "text": '{"n": 1}'}
    assert answer_from({"content": [text], "structuredContent": {"n": 1}}).output == {"text": '{"n": 1}'}
    other = answer_from({"content": [text], "structuredContent": {"n": 2}}).output
    assert other == {"text": '{"n": 1}', "structured": {"n": 2}}


def test_an_error_of_the_tool_is_a_result() -> None:
    answer = answer_from({"content": [{"type": "text", "text": "no"}], "isError": True})
    assert answer.output == {"is_error": True, "text": "no"}


def test_files_and_links_are_described() -> None:
    blob = {"type": "resource", "resource": {"uri": "x://y", "blob": "aGk=", "mimeType": "text/plain"}}
    link = {"type": "resource_link", "uri": "x://z", "name": "z"}
    answer = answer_from({"content": [blob, link]})
    assert answer.output == {
        "text": "",
        "links": [{"uri": "x://z", "name": "z"}],
        "attachments": [{"kind": "file", "mime": "text/plain", "bytes": 2}],
    }
    assert answer.attachments[0].data == b"hi"
    assert answer.attachments[0].suffix == ".txt"


def test_a_huge_answer_is_cut() -> None:
    item = {"type": "text", "text": "x" * 700_000}
    output = answer_from({"content": [item, item, item]}).output
    assert len(output["text"]) <= MAX_TEXT_CHARS + 2
    assert "incomplete" in output
    structured = answer_from({"content": [], "structuredContent": {"a": "x" * 2_000_000}}).output
    assert structured["structured"] == "[2000009 characters, too much to keep]"


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("type", "text", "data", "resource", "blob", "uri", "mimeType", "content")), inner
        )
    ),
    max_leaves=15,
)


@given(_ANY, _ANY, _ANY)
def test_no_answer_can_break_us(content: Any, structured: Any, error: Any) -> None:
    answer_from({"content": content, "structuredContent": structured, "isError": error})
