"""Known secrets never stand in an event."""

import base64
import html
import json
import time
from collections.abc import Callable
from functools import partial
from urllib.parse import quote, quote_plus

import pytest

from agent_fabric.domain.events import ModelAnswered, ToolCalled, ToolReturned
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.messages import Role, ToolCallRequest, Usage
from agent_fabric.domain.secrets.references import HIDDEN, KnownSecrets, fill, secrets_in
from agent_fabric.domain.tools.findings import Source

KEY = "sk-very-secret-123"
SECRETS = KnownSecrets([KEY, "short", KEY + "-longer"])


def test_what_holds_no_secret_is_left_as_it_is() -> None:
    body = ToolCalled(tool="shell", args={"command": "ls", "deep": [1, {"x": None}]}, call_id=CallId("c"))
    assert SECRETS.hide(body) is body


def test_secrets_are_hidden_at_any_depth() -> None:
    body = ToolReturned(
        tool="shell",
        result={"stdout": f"key={KEY}!", "rows": [{"a": [KEY]}], KEY: 1},
        call_id=CallId("c"),
        whole=KEY * 2,
        wrote=(KEY, "b.txt"),
    )
    hidden = SECRETS.hide(body)
    assert KEY not in repr(hidden)
    assert hidden.result["stdout"] == f"key={HIDDEN}!"
    assert hidden.wrote == (HIDDEN, "b.txt")


def test_calls_and_answers_of_models_are_no_exception() -> None:
    call = ToolCallRequest(CallId("c"), "shell", f'{{"command": "echo {KEY}"}}')
    body = ModelAnswered(
        content=f"the key is {KEY}",
        tool_calls=(call,),
        usage=Usage(1, 1),
        model="m",
        finish_reason="stop",
        duration_s=0.1,
    )
    assert KEY not in repr(SECRETS.hide(body))


def test_the_longest_secret_is_hidden_whole() -> None:
    assert SECRETS.hide(f"x {KEY}-longer y") == f"x {HIDDEN} y"


def test_short_values_are_no_secrets() -> None:
    assert SECRETS.hide("a short text") == "a short text"
    assert not KnownSecrets(["abc"])


def test_pages_keep_their_shape() -> None:
    url = f"http://x/?k={KEY}"
    source = Source(url=url, final_url=url, title="t", content_type="", text="words", fetched_at=1.0, sha256="0")
    assert SECRETS.hide(source).url == f"http://x/?k={HIDDEN}"


@pytest.mark.parametrize("dumps", [json.dumps, partial(json.dumps, ensure_ascii=False)])
def test_a_secret_inside_of_json_is_hidden_however_it_is_escaped(dumps: Callable[[object], str]) -> None:
    secret = 'pass"word\\ é'
    hidden = KnownSecrets([secret]).hide(dumps({"command": f"login {secret}"}))
    assert json.loads(hidden) == {"command": f"login {HIDDEN}"}


HOSTILE = [
    'it\'s "quoted" <&> é',
    "a\\n\\'\\\"b\\\\",
    "two\nlines here\n",
    "\\\\x8\\\\",
    '"""""',
    "😀 smile",
    "\ttab\x7f",
    "x y+z%20",
]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize(
    "spelled",
    [
        lambda text: text,
        json.dumps,
        lambda text: json.dumps(json.dumps(text)),
        lambda text: json.dumps({"k": json.dumps([json.dumps(text, ensure_ascii=False)])}),
        repr,
        quote,
        partial(quote, safe="!$&'()*+,;=:@/?"),
        quote_plus,
        lambda text: quote_plus(text).lower(),
        html.escape,
        lambda text: base64.b64encode(text.encode()).decode(),
        lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
        lambda text: text.encode().hex(),
        lambda text: text.encode().hex().upper(),
    ],
)
def test_a_learned_value_is_hidden_however_it_is_spelled(value: str, spelled: Callable[[str], str]) -> None:
    secrets = KnownSecrets()
    secrets.learn({"KEY": value})
    hidden = secrets.hide(f"<<{spelled(value)}>>")
    assert "[secret KEY]" in hidden
    assert not any(letter in hidden.replace("[secret KEY]", "") for letter in "quoedlishm😀")


@pytest.mark.parametrize("user", ["", "x", "me:", "user:", "somebody:"])
def test_a_password_is_hidden_in_what_browsers_make_of_it_and_a_name(user: str) -> None:
    secrets = KnownSecrets()
    secrets.learn({"KEY": KEY})
    basic = base64.b64encode(f"{user}{KEY}".encode()).decode()
    hidden = secrets.hide(f"Authorization: Basic {basic}")
    assert "[secret KEY]" in hidden
    left = hidden.partition("Basic ")[2].replace("[secret KEY]", "")
    assert len(left) <= len(basic) - len(KEY) + 4, "but for characters that the name has a part in"


@pytest.mark.parametrize("text", ["\\" * 1_000_000, '\\"' * 300_000, "%" * 1_000_000, "a\\" * 300_000, "&" * 1_000_000])
def test_no_text_takes_long(text: str) -> None:
    secrets = KnownSecrets()
    secrets.learn({str(number): value for number, value in enumerate([*HOSTILE, "a\\b\\c", '\\"\\"x'])})
    begun = time.process_time()
    secrets.hide({"stdout": text})
    assert time.process_time() - begun < 5


def test_what_is_learned_twice_is_kept_once_and_what_is_short_not_at_all() -> None:
    secrets = KnownSecrets()
    secrets.learn({"KEY": "abc", "PIN": ""})
    assert not secrets
    secrets.learn({"KEY": "value-1"})
    secrets.learn({"KEY": "value-1", "NEXT": "value-2"})
    assert secrets.hide("value-1 value-2 abc") == "[secret KEY] [secret NEXT] abc"


def test_a_value_that_is_in_the_name_of_another_does_no_harm() -> None:
    secrets = KnownSecrets()
    secrets.learn({"TOKEN": "secret-value", "B": "TOKEN", "C": "secret"})
    assert secrets.hide("secret-value") == "[secret TOKEN]"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("${secret:A}${secret:b_2}", {"A", "b_2"}),
        ("${secret:}", set()),
        ("${secret:A B}", set()),
        ("$secret:A", set()),
        ("${SECRET:A}", set()),
        ("${secret:my-key.x}", {"my-key.x"}),
        ("${secret:" + "a" * 200 + "}", set()),
    ],
)
def test_names_are_read_from_references(text: str, names: set[str]) -> None:
    assert secrets_in({"a": [text, 1, None], "b": {"c": (text,)}}) == names
    assert secrets_in({text: 1}) == names


def test_a_value_that_looks_like_a_reference_is_not_replaced_in_turn() -> None:
    assert fill(["${secret:A}", {"${secret:A}": 1}, 2], {"A": "${secret:B}", "B": "x"}) == [
        "${secret:B}",
        {"${secret:B}": 1},
        2,
    ]


LONG_KEY = "".join(f"{nth:x}Kq+/" for nth in range(60))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n", "\\\\n"])
@pytest.mark.parametrize("before", ["", "u:", "user:"])
@pytest.mark.parametrize(("encode", "width"), [("base64", 76), ("base64", 64), ("hex", 60)])
def test_a_long_secret_is_hidden_where_a_program_has_broken_its_encoding_into_lines(
    encode: str, width: int, before: str, end: str
) -> None:
    secrets = KnownSecrets()
    secrets.learn({"KEY": LONG_KEY})
    data = (before + LONG_KEY).encode()
    encoded = base64.b64encode(data).decode() if encode == "base64" else data.hex()
    wrapped = end.join(encoded[at : at + width] for at in range(0, len(encoded), width))
    hidden = secrets.hide(f"key: {wrapped}{end}done")
    assert "[secret KEY]" in hidden
    assert not any(encoded[at : at + 30] in hidden for at in range(len(before) * 2 + 10, len(encoded) - 40, 10))
    assert hidden.endswith(f"{end}done")


def test_other_wrapped_data_stays_as_it_is_and_takes_no_time() -> None:
    secrets = KnownSecrets()
    secrets.learn({"KEY": LONG_KEY})
    other = base64.encodebytes(bytes(range(256)) * 20).decode()
    assert secrets.hide(other) == other
    began = time.process_time()
    secrets.hide("A" * 2_000_000)
    secrets.hide(("A" * 59 + "\n") * 30_000)
    secrets.hide(("A" * 60 + "\\") * 30_000)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("value", [KEY, LONG_KEY])
def test_what_holds_no_secret_stays_what_it_is(value: str) -> None:
    secrets = KnownSecrets()
    secrets.learn({"KEY": value})
    texts: list[str] = [Role.TOOL, "plain", "A" * 70, ""]
    assert all(secrets.hide(text) is text for text in texts)
