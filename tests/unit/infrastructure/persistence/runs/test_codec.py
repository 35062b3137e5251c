"""Whatever a model or a tool sent is recorded as it came, and comes back whole."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_fabric.domain.events import Body, RunCreated, ToolCalled, ToolReturned, UnknownEvent
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.runs.event_versions import body_from
from agent_fabric.domain.tools.specs import BadArguments, arguments_from
from agent_fabric.infrastructure.persistence.runs.codec import INLINE_BYTES, LONG_TEXT, decode, encode, pack, unpack
from agent_fabric.wire.json_codec import dump_json, load_json, may_have_long_text
from contract.run_repository_contract import run_created
from effort import examples

KEYS = st.sampled_from(["$blob", "chars", "a", "content", "ü", ""])
TEXTS = st.one_of(
    st.text(max_size=20),
    st.builds(lambda text, times: text * times, st.text(min_size=1, max_size=3), st.integers(2_500, 4_000)),
)
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), TEXTS
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)


def call(args: Mapping[str, Any]) -> ToolCalled:
    return ToolCalled(tool="shell", args=args, call_id=CallId("call_1"))


def there_and_back(body: Body) -> Body:
    payload, blobs = encode(body)
    return decode(body.kind, 1, payload, blobs.__getitem__)


def long(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments too large to stay in the row."""
    return {**args, "padding": "x" * INLINE_BYTES}


@settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_a_large_payload_of_any_shape_comes_back_whole(args: dict[str, Any]) -> None:
    assert there_and_back(call(long(args))) == call(long(args))


@pytest.mark.parametrize(
    "size", [LONG_TEXT, LONG_TEXT + 1, INLINE_BYTES - 60, INLINE_BYTES, INLINE_BYTES + 1, 5_000_000]
)
def test_texts_of_every_size_come_back_whole(size: int) -> None:
    body = call({"content": "é" * size})
    assert there_and_back(body) == body


def test_long_texts_leave_the_row_and_the_same_text_is_kept_once() -> None:
    text = "same " * 10_000
    payload, blobs = encode(call({"one": text, "two": [text, {"three": text}], "short": "stays"}))
    assert len(payload) < INLINE_BYTES
    assert blobs == {hashlib.sha256(text.encode()).digest(): text.encode()}
    assert b"stays" in payload


def test_a_payload_that_fits_stays_in_one_piece() -> None:
    payload, blobs = encode(call({"content": "x" * (INLINE_BYTES - 200)}))
    assert len(payload) <= INLINE_BYTES
    assert blobs == {}


def test_what_is_stored_can_be_unpacked() -> None:
    content = "text \udc80 ü".encode("utf-8", "surrogatepass") * 1_000
    assert unpack(pack(content)) == content
    assert len(pack(content)) < len(content) / 10


OURS: list[dict[str, Any]] = [
    {"$blob": "ab", "chars": 1},
    {"$blob": "not hex", "chars": 1},
    {"$blob": {"a": 1}},
    {"$blob": {"$blob": {"$blob": "ab", "chars": 2}}},
    {"deep": [{"$blob": "00" * 32, "chars": 70_000}]},
]


@pytest.mark.parametrize("args", [*OURS, {"$blob": None}, {"$blob": ["a"], "chars": "b"}])
def test_a_tool_may_use_our_key_for_something_of_its_own(args: dict[str, Any]) -> None:
    assert there_and_back(call(long(args))) == call(long(args))


@pytest.mark.parametrize("args", OURS)
def test_a_tool_may_use_our_key_in_a_small_payload_too(args: dict[str, Any]) -> None:
    assert there_and_back(call(args)) == call(args)


@pytest.mark.parametrize("padding", ["", "x" * INLINE_BYTES])
@pytest.mark.parametrize("value", ["\udc80", "\ud800 alone", "\ud83d\ude00 as a pair", "\x00", "\x7f\x9b", "\u2028"])
def test_odd_characters_come_back_as_they_were(value: str, padding: str) -> None:
    if value == "\ud83d\ude00 as a pair":
        value = value.encode("utf-16", "surrogatepass").decode("utf-16")
    body = call({"value": value, value: "as a key", "padding": padding})
    assert there_and_back(body) == body


@pytest.mark.parametrize("value", [2**63, -(2**63), 2**64 - 1])
def test_integers_of_64_bits_come_back_as_they_were(value: int) -> None:
    assert there_and_back(call({"value": value})) == call({"value": value})


@pytest.mark.parametrize("value", [2**64 + 1, 10**30 + 1])
def test_huge_integers_come_back_as_they_were(value: int) -> None:
    assert there_and_back(call({"value": value})) == call({"value": value})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"a":' * 100 + "1" + "}" * 100, id="100 levels"),
        pytest.param('{"a":' * 300 + "1" + "}" * 300, id="300 levels"),
        pytest.param('{"a":' * 600 + "1" + "}" * 600, id="600 levels"),
        pytest.param("[" * 900 + "]" * 900, id="900 lists"),
        pytest.param('{"a": 1e999}', id="too large for a float"),
        pytest.param('{"a": -1e999, "b": 1' + "0" * 30 + "}", id="too large, beside a huge integer"),
    ],
)
def test_arguments_that_were_accepted_can_be_recorded_as_they_came(text: str) -> None:
    try:
        body = call(arguments_from(text))
    except BadArguments:
        return  # the model was told
    assert there_and_back(body) == body
    json.loads(encode(body)[0], parse_constant=pytest.fail)


@pytest.mark.parametrize("odd", ["", "\udc80", 10**30])
def test_what_was_written_is_read_back_and_is_json_for_everybody(odd: object) -> None:
    value = {"a": [1, 2.5, None, True, "ü", odd]}
    assert load_json(dump_json(value)) == value
    assert json.loads(dump_json(value)) == value


def test_an_older_payload_is_lifted_step_by_step() -> None:
    def rename(payload: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**{key: value for key, value in payload.items() if key != "name"}, "tool": payload["name"]}

    def number(payload: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**payload, "call_id": f"call_{payload['call_id']}"}

    upcasters = {"tool_call": (rename, number)}
    lifted = ToolCalled(tool="shell", args={}, call_id=CallId("call_7"))
    assert body_from("tool_call", 1, {"name": "shell", "args": {}, "call_id": 7}, upcasters=upcasters) == lifted
    assert body_from("tool_call", 2, {"tool": "shell", "args": {}, "call_id": 7}, upcasters=upcasters) == lifted
    assert body_from("tool_call", 3, {"tool": "shell", "args": {}, "call_id": "call_7"}, upcasters=upcasters) == lifted


def test_what_a_newer_program_wrote_is_kept_but_not_understood() -> None:
    assert body_from("tool_call", 2, {"x": 1}) == UnknownEvent(kind="tool_call", payload={"x": 1})
    assert body_from("step_started", 1, {"x": 1}) == UnknownEvent(kind="step_started", payload={"x": 1})


def test_a_field_that_a_newer_program_added_does_no_harm() -> None:
    payload = load_json(encode(ToolReturned(tool="a", result={}, call_id=CallId("c")))[0])
    assert body_from("tool_result", 1, {**payload, "colour": "blue"}) == body_from("tool_result", 1, payload)


def test_a_field_that_a_newer_program_added_inside_does_no_harm_either() -> None:
    payload = load_json(encode(run_created())[0])
    payload["budget"]["max_euros"] = 3
    assert isinstance(body_from("run_created", 1, payload), RunCreated)


@pytest.mark.parametrize("change", [{"profile": "swarm"}, {"budget": {}}, {"budget": None}])
def test_a_value_that_a_newer_program_added_is_shown_but_not_driven(change: dict[str, Any]) -> None:
    payload = {**load_json(encode(run_created())[0]), **change}
    assert isinstance(body_from("run_created", 1, payload), UnknownEvent)


_TEXTS = st.text(alphabet='ab"\\\n/ü\u2028', max_size=40)


@given(st.recursive(_TEXTS | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(_TEXTS, inner)))
def test_a_long_text_is_never_overlooked(value: object) -> None:
    encoded = dump_json(value)
    for most in (0, 5, 20):
        assert may_have_long_text(encoded, most) or longest_text(value) <= most


def longest_text(value: object) -> int:
    match value:
        case str():
            return len(value)
        case list():
            return max(map(longest_text, value), default=0)
        case dict():
            return max(map(longest_text, value.values()), default=0)
        case _:
            return 0
