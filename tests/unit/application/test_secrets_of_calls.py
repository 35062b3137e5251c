"""A call gets the secrets that it names; nobody else ever sees them."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from agent_fabric.application.tools.call_site import CallSite
from agent_fabric.application.tools.invoke_tool import InvokeTool
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.events import Body, ModelAnswered, SecurityViolated, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.ids import CallId, LaneId, RunId
from agent_fabric.domain.models.messages import LLMResponse, Message, ToolCallRequest
from agent_fabric.domain.secrets.references import KnownSecrets
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def
from agent_fabric.infrastructure.secrets.folder_secrets import EnvironmentSecrets
from agent_fabric.testing.fakes import FrozenClock, PermissivePolicy
from agent_fabric.testing.workbench import workbench

TOKEN = "tok'en\"$(id)\n-ünï-12345"
SPEC = ToolSpec(name="send", description="", parameters={"type": "object"}, effect=Effect.LEAVES_SANDBOX)
COMMAND = replace(SPEC, name="shell", command_argument="command")
CONTEXT = ToolContext(run_id=RunId("r"), call_id=CallId("c"), timeout_s=5, network_allowed=True)
SITE = CallSite(
    run_id=RunId("r"),
    lane=LaneId("l"),
    step=0,
    agent="workflow",
    target="/w",
    scopes=frozenset(),
    secrets=frozenset({"TOKEN", "PIN"}),
)


@dataclass
class Steps:
    """Calls one tool through the door, and keeps what the tool got."""

    answer: Callable[[Mapping[str, Any]], object] = lambda args: {"echo": args}
    environ: dict[str, str] = field(default_factory=lambda: {"TOKEN": TOKEN, "PIN": "123456", "OTHER": "other-secret"})
    known: KnownSecrets = field(default_factory=KnownSecrets)
    policy: PermissivePolicy = field(default_factory=PermissivePolicy)
    got: list[tuple[Mapping[str, Any], ToolContext]] = field(default_factory=list)

    async def call(self, args: object, *, site: CallSite = SITE, spec: ToolSpec = SPEC) -> list[Body]:
        async def tool(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
            self.got.append((args, context))
            output = self.answer(args)
            return output if isinstance(output, ToolResult) else ToolResult(output=output)  # type: ignore[arg-type]  # a test's

        invoke = InvokeTool(
            self.policy,
            FrozenClock(),
            2_000,
            secrets=EnvironmentSecrets(self.environ),
            known_secrets=self.known,
        )
        prepared = invoke(
            ToolCallRequest(CallId("c"), spec.name, json.dumps(args)),
            site=site,
            tools={spec.name: spec},
            pack=BaseSpecialistPack(system_prompt="", tools=((spec, tool),), finish=make_finish_tool_def({})),
            attempt=1,
            context=CONTEXT,
        )
        return [*prepared.bodies, *(await prepared.effect() if prepared.effect else ())]


async def test_the_tool_gets_the_value_at_any_depth_and_the_log_the_name() -> None:
    steps = Steps()
    args = {
        "headers": {"Authorization": "Bearer ${secret:TOKEN}"},
        "list": [["${secret:PIN}${secret:TOKEN}"], 1],
        "n": None,
    }
    called, returned = await steps.call(args)
    assert steps.got[0][0] == {
        "headers": {"Authorization": f"Bearer {TOKEN}"},
        "list": [["123456" + TOKEN], 1],
        "n": None,
    }
    assert isinstance(called, ToolCalled)
    assert called.args == args
    assert isinstance(returned, ToolReturned)
    assert returned.result["echo"]["headers"] == {"Authorization": "Bearer [secret TOKEN]"}
    assert returned.result["echo"]["list"] == [["[secret PIN][secret TOKEN]"], 1]
    assert TOKEN not in repr((called, returned))


@pytest.mark.parametrize(
    "spelled",
    [
        lambda token: token,
        json.dumps,
        repr,
        quote,
        quote_plus,
        lambda token: base64.b64encode(token.encode()).decode(),
        lambda token: "  " + token.splitlines()[1] + "  ",
    ],
)
async def test_a_value_is_hidden_however_it_is_spelled(spelled: Callable[[str], str]) -> None:
    text = f"it is <{spelled(TOKEN)}>"
    (_, returned) = await Steps(lambda _: {"stdout": text, text: [text]}).call({"x": "${secret:TOKEN}"})
    assert "12345" not in repr(returned)
    assert spelled(TOKEN) not in repr(returned)


async def test_a_number_is_hidden_too() -> None:
    steps = Steps(lambda _: {"json": {"pin": 123456, "list": [123456, 123457]}, "n": 123456.5, "ok": True})
    (_, returned) = await steps.call({"x": "${secret:PIN}"})
    assert isinstance(returned, ToolReturned)
    assert returned.result == {
        "json": {"pin": "[secret PIN]", "list": ["[secret PIN]", 123457]},
        "n": 123456.5,
        "ok": True,
    }


async def test_a_long_output_is_cut_after_the_secret_is_out() -> None:
    (_, returned) = await Steps(lambda _: {"stdout": TOKEN * 3_000}).call({"x": "${secret:TOKEN}"})
    assert isinstance(returned, ToolReturned)
    assert returned.whole
    assert "12345" not in repr(returned)


@pytest.mark.parametrize("kind", [ValueError, PermissionError, KeyError, RuntimeError, ConnectionError])
async def test_errors_are_no_exception(kind: type[Exception]) -> None:
    def fail(args: Mapping[str, Any]) -> object:
        raise kind(f"cannot log in with {args['x']}")

    bodies = await Steps(fail).call({"x": "${secret:TOKEN}"})
    erred = next(body for body in bodies if isinstance(body, ToolErred))
    assert "[secret TOKEN]" in erred.error_message
    assert erred.error_type == kind.__name__
    assert "12345" not in repr(bodies)
    assert any(isinstance(body, SecurityViolated) for body in bodies) == (kind is PermissionError)


@pytest.mark.parametrize("value", [None, ""])
async def test_without_the_secret_nothing_runs_and_the_person_is_told_what_to_do(value: str | None) -> None:
    steps = Steps(environ={} if value is None else {"TOKEN": value})
    called, erred = await steps.call({"x": "${secret:TOKEN}"})
    assert steps.got == []
    assert isinstance(called, ToolCalled)
    assert isinstance(erred, ToolErred)
    assert erred.error_type == "SecretMissing"
    assert erred.error_message.startswith("there is no secret 'TOKEN'. Set the environment variable TOKEN")


async def test_what_is_too_short_to_hide_is_not_used() -> None:
    steps = Steps(environ={"PIN": "12"})
    (_, erred) = await steps.call({"x": "${secret:PIN}"})
    assert steps.got == []
    assert isinstance(erred, ToolErred)
    assert "too short" in erred.error_message


async def test_only_what_the_workflow_names_is_given() -> None:
    steps = Steps()
    await steps.call({"x": "${secret:OTHER} ${secret:TOKEN}"})
    await steps.call({"x": "${secret:TOKEN}"}, site=SITE._replace(secrets=frozenset()))
    assert [args["x"] for args, _ in steps.got] == [f"${{secret:OTHER}} {TOKEN}", "${secret:TOKEN}"]


@pytest.mark.parametrize("text", ["${secret:TOKEN}", "$${secret:TOKEN}", "{secret:TOKEN}", "${secret:${secret:TOKEN}}"])
async def test_what_a_tool_gives_back_names_no_secret(text: str) -> None:
    steps = Steps(lambda _: {"body": text, "deep": [{text: text}]})
    (_, returned) = await steps.call({})
    assert isinstance(returned, ToolReturned)
    assert "{secret:" not in repr(returned.result)
    await steps.call({"x": returned.result["body"], "price": "$" + str(returned.result["body"])})
    assert TOKEN not in repr(steps.got)


async def test_a_command_gets_its_secrets_as_variables() -> None:
    steps = Steps()
    command = "curl -H 'Authorization: ${secret:TOKEN}' \"${secret:PIN}\""
    (called, _) = await steps.call({"command": command}, spec=COMMAND)
    args, context = steps.got[0]
    assert args["command"] == ("curl -H 'Authorization: '\"${FABRIC_SECRET_TOKEN}\"'' \"${FABRIC_SECRET_PIN}\"")
    assert context.environment == {"FABRIC_SECRET_TOKEN": TOKEN, "FABRIC_SECRET_PIN": "123456"}
    assert TOKEN not in repr(context)
    assert isinstance(called, ToolCalled)
    assert called.args == {"command": command}


async def test_a_command_in_which_a_secret_cannot_stand_does_not_run() -> None:
    steps = Steps()
    (_, erred) = await steps.call({"command": "cat <<X\n${secret:TOKEN}\nX"}, spec=COMMAND)
    assert steps.got == []
    assert isinstance(erred, ToolErred)
    assert "here-document" in erred.error_message


async def test_the_person_who_is_asked_sees_the_name() -> None:
    steps = Steps(policy=PermissivePolicy(frozenset({"send"})))
    (asked,) = await steps.call({"x": "${secret:TOKEN}"})
    assert isinstance(asked, ApprovalRequested)
    assert asked.args == {"x": "${secret:TOKEN}"}
    assert steps.got == []


async def test_values_that_were_used_are_hidden_from_then_on() -> None:
    steps = Steps()
    assert not steps.known
    await steps.call({"x": "${secret:TOKEN}"})
    assert steps.known.hide({"later": f"a file with {TOKEN}"}) == {"later": "a file with [secret TOKEN]"}
    assert steps.known.hide({"later": "other-secret"}) == {"later": "other-secret"}


async def test_a_run_that_goes_on_elsewhere_remembers_what_it_used() -> None:
    known = KnownSecrets()
    invoke = InvokeTool(
        PermissivePolicy(), FrozenClock(), 100, secrets=EnvironmentSecrets({"TOKEN": TOKEN}), known_secrets=known
    )
    await invoke.remember_secrets(frozenset({"TOKEN", "GONE"}))
    assert known.hide(f"x{TOKEN}") == "x[secret TOKEN]"


async def test_a_driver_hides_what_was_learned_while_it_drives() -> None:
    known = KnownSecrets()

    def pack(_: str) -> BaseSpecialistPack:
        async def learn(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
            known.learn({"TOKEN": TOKEN})
            return ToolResult(output={"said": TOKEN})

        return BaseSpecialistPack(system_prompt="", tools=((SPEC, learn),), finish=make_finish_tool_def({}))

    answers = iter([ToolCallRequest(CallId("1"), "send", "{}"), ToolCallRequest(CallId("2"), "finish_task", "{}")])

    async def answer(_: Sequence[Message]) -> LLMResponse:
        return LLMResponse(content=f"it is {TOKEN}" if known else "hello", tool_calls=(next(answers),))

    bench = workbench(pack, answer)
    drive = replace(bench.execute_task.drive, secrets=known)
    bench = replace(bench, execute_task=replace(bench.execute_task, drive=drive))
    await bench.run()
    (log,) = bench.runs.logs.values()
    assert [event.body.content for event in log if isinstance(event.body, ModelAnswered)] == [
        "hello",
        "it is [secret TOKEN]",
    ]
    assert TOKEN not in repr(log)
