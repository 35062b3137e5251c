"""One event, one line; whatever is in it."""

import json
import logging
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.domain.secrets.references import REDACTED
from agent_fabric.infrastructure.observability.log_lines import FromLogging, Lines
from agent_fabric.infrastructure.secrets.redaction import Redactor
from effort import examples

pytestmark = pytest.mark.proves("AF-149")


def line(fields: dict[str, Any], *secrets: str, level: str = "info", pretty: bool = False) -> str:
    return Lines(Redactor(secrets), pretty=pretty)(None, level, dict(fields))


def parsed(fields: dict[str, Any], *secrets: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(line(fields, *secrets))
    return data


def failed(message: str) -> BaseException:
    try:
        try:
            raise KeyError(message)
        except KeyError as problem:
            problem.add_note(f"note: {message}")
            raise ValueError(f"because of {message}") from problem
    except ValueError as problem:
        return problem


def test_a_line_says_when_where_and_what_first() -> None:
    data = parsed({"run_id": "r1", "event": "run_created", "logger": "runs", "n": 1})
    assert list(data) == ["timestamp", "level", "logger", "event", "run_id", "n"]
    written = datetime.fromisoformat(data["timestamp"])
    assert data["timestamp"].endswith("Z")
    assert written.utcoffset() == timedelta(0)


def test_data_cannot_take_the_place_of_what_the_log_says_itself() -> None:
    fields = {"event": "x", "level": "debug", "timestamp": "1970", "exception": {"a": 1}, "stack": "1970 [info] forged"}
    data = parsed(fields)
    assert data["level"] == "info"
    assert data["timestamp"] != "1970"
    assert [data[f"{key}_"] for key in ("level", "timestamp", "exception", "stack")] == list(fields.values())[1:]
    assert "\n" not in line(fields, pretty=True)


def test_an_exception_is_data_in_json() -> None:
    outer, inner = parsed({"event": "x", "exc_info": failed("boom")})["exception"]
    assert (outer["exc_type"], outer["exc_value"]) == ("ValueError", "because of boom")
    assert (inner["exc_type"], inner["is_cause"], inner["exc_notes"]) == ("KeyError", True, ["note: boom"])
    assert inner["frames"][-1]["name"] == "failed"
    assert inner["frames"][-1]["lineno"] > 0


@pytest.mark.parametrize("pretty", [False, True])
def test_the_exception_being_handled_can_be_meant(pretty: bool) -> None:
    try:
        raise LookupError("here")
    except LookupError:
        assert "LookupError" in line({"event": "x", "exc_info": True}, pretty=pretty)
    assert "exception" not in line({"event": "x", "exc_info": True})


def test_an_exception_is_a_traceback_for_people() -> None:
    first, *rest = line({"event": "it_failed", "exc_info": failed("boom")}, pretty=True).split("\n")
    assert "it_failed" in first
    assert rest[0] == "    Traceback (most recent call last):"
    assert rest[-1] == "    ValueError: because of boom"


def test_a_long_traceback_keeps_its_beginning_and_its_end() -> None:
    def dig(depth: int) -> None:  # by turns, since calls that are all alike are shown as one
        if depth == 0:
            raise ValueError("at the bottom")
        dig_on(depth - 1)

    def dig_on(depth: int) -> None:
        dig(depth)

    with pytest.raises(ValueError, match="bottom") as caught:
        dig(100)
    shown = line({"event": "x", "exc_info": caught.value}, pretty=True).split("\n")
    assert shown[1] == "    Traceback (most recent call last):"
    assert shown[-1] == "    ValueError: at the bottom"
    assert len(shown) < 110
    assert len(parsed({"event": "x", "exc_info": caught.value})["exception"][0]["frames"]) <= 31


def test_local_variables_are_not_part_of_it() -> None:
    def fails() -> None:
        prompt = "a prompt that nobody else may read"
        raise ValueError(len(prompt))

    with pytest.raises(ValueError, match="34") as caught:
        fails()
    assert "nobody else" not in line({"event": "x", "exc_info": caught.value})


@pytest.mark.parametrize("pretty", [False, True])
def test_an_exception_that_cannot_be_shown_does_not_break_the_line(pretty: bool) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert "Odd" in line({"event": "still_written", "exc_info": Odd()}, pretty=pretty)


@pytest.mark.parametrize("pretty", [False, True])
def test_a_line_that_fails_says_so(pretty: bool) -> None:
    class Hostile(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("no")

    shown = line({"event": "x", "data": Hostile()}, pretty=pretty)
    assert "log_line_failed" in shown
    assert "RuntimeError" in shown


def test_what_a_library_gives_as_extra_becomes_fields() -> None:
    written: list[str] = []
    logger = logging.Logger("agent_fabric.application")  # noqa: LOG001 - one that nothing else sees
    logger.addHandler(FromLogging(Lines(Redactor(), pretty=False), written.append))
    logger.warning("run stopped: %s", "why", extra={"run_id": "r1", "token": "t"})
    data = json.loads(written[0])
    assert list(data) == ["timestamp", "level", "logger", "event", "run_id", "token"]
    assert (data["event"], data["run_id"], data["token"]) == ("run stopped: why", "r1", REDACTED)


def test_a_library_s_message_that_does_not_fit_its_arguments_is_written_all_the_same() -> None:
    written: list[str] = []
    record = logging.LogRecord("odd", logging.WARNING, "", 1, "%d things", ("no number", "too many"), None)
    FromLogging(Lines(Redactor(), pretty=False), written.append).handle(record)
    data = json.loads(written[0])
    assert (data["event"], data["args"]) == ("%d things", ["no number", "too many"])


EVIL = st.text(st.characters(codec=None, categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Zs", "L", "P"]), max_size=40)
LINE_BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


@given(event=EVIL, key=EVIL, value=EVIL, nested=st.recursive(EVIL, lambda x: st.lists(x) | st.dictionaries(EVIL, x)))
@settings(max_examples=examples(100), deadline=None)
def test_nothing_in_a_json_line_can_forge_another(event: str, key: str, value: str, nested: Any) -> None:
    shown = line({"event": event, key: value, "nested": nested, "exc_info": failed(value)})
    assert not LINE_BREAKS.search(shown)
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    shown.encode()
    data = json.loads(shown)
    assert data["level"] == "info"


@given(event=EVIL, key=EVIL, value=EVIL, nested=st.recursive(EVIL, lambda x: st.lists(x) | st.dictionaries(EVIL, x)))
@settings(max_examples=examples(100), deadline=None)
def test_nothing_in_a_pretty_line_can_forge_another_or_steer_the_terminal(
    event: str, key: str, value: str, nested: Any
) -> None:
    shown = line({"event": event, key: value, "nested": nested, "exc_info": failed(value)}, pretty=True)
    first, *rest = shown.split("\n")
    assert first.isprintable()
    assert all(each.startswith("    ") and each.isprintable() for each in rest)


def test_colours_are_ours_alone() -> None:
    shown = Lines(Redactor(), pretty=True, colours=True)(None, "error", {"event": "\x1b[31mred", "a": "\x1b[2J"})
    assert "\x1b[" in shown
    assert "\x1b[2J" not in shown
    assert r"\x1b[31mred" in shown


# The signs are in no other text, so whatever is found of a secret comes from it.
ALNUM = st.text(string.ascii_letters + string.digits, min_size=14, max_size=30).map(lambda text: f"Z9{text}")
KNOWN = st.text(min_size=5, max_size=40).map(lambda text: f"§{text}§")
LOOKS = st.one_of(
    ALNUM.map(lambda body: ("sk-" + body, "{}")),
    ALNUM.map(lambda body: ("ghp_" + body, "see {}, please")),
    ALNUM.map(lambda body: ("xoxb-" + body, "({})")),
    ALNUM.map(lambda body: ("AKIA" + body.upper(), "id {}")),
    ALNUM.map(lambda body: (body, "Authorization: Bearer {}")),
    ALNUM.map(lambda body: (body, "password={}")),
    ALNUM.map(lambda body: (body, "GET /a?b=1&access_token={}&c=2")),
    ALNUM.map(lambda body: (body, "postgres://user:{}@host/db")),
    ALNUM.map(lambda body: (body, '["client_secret": "{}"]')),
    ALNUM.map(lambda body: (body, "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----")),
)
AROUND = st.text(string.ascii_lowercase + " .\n'\"\\", max_size=20)


@dataclass
class Shown:
    text: str


def planted(text: str) -> dict[str, Any]:
    """Put a text wherever a line may have one."""
    return {
        "event": f"about {text}",
        "value": text,
        "deep": [{"list": [text, (text,), {text: text}]}, text.encode("utf-8", "surrogatepass")],
        "object": ValueError(text),
        "shown": Shown(text),
        text: "a key",
        "exc_info": failed(text),
    }


def texts_in(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for key, item in value.items():
                yield key
                yield from texts_in(item)
        case list():
            for item in value:
                yield from texts_in(item)
        case _:
            pass


@given(secret=KNOWN, before=AROUND, after=AROUND)
@settings(max_examples=examples(100), deadline=None)
def test_no_known_secret_survives(secret: str, before: str, after: str) -> None:
    fields = planted(f"{before}{secret}{after}")
    assert not any("§" in text for text in texts_in(parsed(fields, secret)))
    assert "§" not in line(fields, secret, pretty=True)


@given(look=LOOKS, before=AROUND, after=AROUND)
@settings(max_examples=examples(100), deadline=None)
def test_nothing_that_looks_like_a_secret_survives(look: tuple[str, str], before: str, after: str) -> None:
    secret, shape = look
    fields = planted(f"{before} {shape.replace('{}', secret)} {after}")
    shown = line(fields)
    assert REDACTED in shown
    assert secret not in shown
    assert secret not in line(fields, pretty=True)
