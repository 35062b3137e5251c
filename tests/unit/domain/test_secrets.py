"""Known secrets never stand in an event."""

import json
from collections.abc import Callable
from functools import partial

import pytest

from agent_fabric.domain.events import ModelAnswered, ToolCalled, ToolReturned
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.messages import ToolCallRequest, Usage
from agent_fabric.domain.secrets import HIDDEN, KnownSecrets
from agent_fabric.domain.sources import Source

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
