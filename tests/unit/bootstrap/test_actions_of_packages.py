"""Actions of installed packages are found by their entry points; a broken one is told, and nothing else suffers."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_fabric.config.schema.tools import WebConfig
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import Effect, ToolContext
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack
from agent_fabric.infrastructure.packs.plugins import ActionOffer, installed_actions
from agent_fabric.infrastructure.packs.step_pack import step_pack
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.web.requests import HttpRequests
from installed_packages import laid_out

Install = Callable[..., None]

MODULE = """
from agent_fabric.extend import Effect, action

print("hello from the package")

SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "url": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


@action(name="send-slack", parameters=SCHEMA, effect=Effect.LEAVES_SANDBOX, timeout_s=7, url_argument="url")
async def send(inputs, context):
    \"\"\"Send a message.\"\"\"
    return {"sent": inputs["text"], "run": context.run_id}


@action(name="count")
def count(inputs, context):
    import threading

    return [len(inputs), threading.current_thread() is threading.main_thread()]
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make a package importable, as an installer does."""

    def install(entry_points: str, *, module: str = MODULE, name: str = "chat") -> None:
        monkeypatch.syspath_prepend(laid_out(tmp_path, name, f"[agent_fabric.actions]\n{entry_points}\n", module))
        monkeypatch.delitem(sys.modules, f"{name}_module", raising=False)

    return install


def found() -> list[ActionOffer]:
    return [offer for offer in installed_actions() if offer.package.partition(" ")[0] in {"chat", "others"}]


def context() -> ToolContext:
    return ToolContext(run_id=RunId("r"), call_id=CallId("c"), timeout_s=5, network_allowed=True)


def test_without_packages_there_is_nothing() -> None:
    assert found() == []


async def test_an_action_of_a_package_becomes_a_tool(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("send-slack = chat_module:send\ncount = chat_module:count")
    offers = found()
    assert [(offer.name, offer.package, offer.problem) for offer in offers] == [
        ("count", "chat 1.0", ""),
        ("send-slack", "chat 1.0", ""),
    ]
    assert capsys.readouterr().out == ""
    actions = [offer.action for offer in offers if offer.action is not None]
    sandbox = UnconfinedSandbox(tmp_path, "a-run")
    pack: BaseSpecialistPack = step_pack(sandbox, sender=HttpRequests(WebConfig()), actions=actions)
    assert [spec.name for spec in pack.tool_definitions] == [
        "shell",
        "http_request",
        "read_file",
        "write_file",
        "count",
        "send-slack",
    ]
    spec = pack.tool_definitions[-1]
    assert (spec.description, spec.effect, spec.timeout_s, spec.url_argument) == (
        "Send a message.",
        Effect.LEAVES_SANDBOX,
        7,
        "url",
    )
    assert (await pack.execute_tool("send-slack", {"text": "hi"}, context())).output == {"sent": "hi", "run": "r"}
    assert (await pack.execute_tool("count", {"a": 1}, context())).output == {"result": [1, False]}


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("", "AttributeError: "),
        ("raise SystemExit('bye')", "SystemExit: bye"),
        ("def send(a, b): ...", "TypeError: chat_module:send must be made by @action of agent_fabric.extend"),
        ("@action(name='other')", "TypeError: chat_module:send is the action 'other'"),
        ("@action(name='run-command')", "TypeError: 'run-command' is the name of something built in"),
        ("@action(name='http_request')", "TypeError: 'http_request' is the name of something built in"),
        ("@action(name='send slack')", "TypeError: 'send slack' cannot be the name of an action"),
        ("@action(name='send-slack', timeout_s=0)", "TypeError: the action 'send-slack': timeout_s"),
        ("@action(name='send-slack', url_argument='u')", "TypeError: the action 'send-slack': url_argument"),
        (
            "@action(name='send-slack', parameters={'type': 'array'})",
            "TypeError: the action 'send-slack': its parameters must be a JSON schema of type 'object'",
        ),
        (
            "@action(name='send-slack', parameters={'type': 'object', 'x': {1}})",
            "TypeError: the action 'send-slack': its parameters are no JSON schema",
        ),
        (
            "@action(name='send-slack')\ndef send(inputs): ...",
            "TypeError: the action 'send-slack' must take two arguments",
        ),
    ],
)
def test_an_action_that_cannot_be_used_says_why_and_others_stay(install: Install, module: str, problem: str) -> None:
    if module.startswith("@action"):
        module = f"from agent_fabric.extend import action\n{module}"
        module += "" if "def " in module else "\ndef send(inputs, context): ..."
    install("send-slack = chat_module:send", module=module)
    install("count = others_module:count", name="others")
    count, broken = found()
    assert count.action is not None
    assert broken.action is None
    assert broken.problem.startswith(problem)


def test_two_packages_with_the_same_action_are_told_so(install: Install) -> None:
    install("count = chat_module:count")
    install("count = others_module:count", name="others")
    offers = found()
    assert [offer.action for offer in offers] == [None, None]
    assert all("more than one package" in offer.problem for offer in offers)
