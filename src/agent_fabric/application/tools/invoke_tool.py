"""The only way any tool ever runs: resolve, check, ask the policy, execute, cut to size, say what happened."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.tools import ToolExecutor
from agent_fabric.application.runs.prepared import Prepared
from agent_fabric.domain.events import Body, SecurityViolated, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.json_schema import problems_with, too_deep
from agent_fabric.domain.messages import ToolCallRequest
from agent_fabric.domain.policy.commands import CommandPolicy
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools import BadArguments, Effect, ToolContext, ToolResult, ToolSpec, arguments_from

SANDBOX_VIOLATION = "sandbox_violation"
GRACE_S = 5.0
"""A tool that watches its own time may take this much longer to clean up and say so; then it is ended."""
MOST_KEPT_CHARS = 10_000_000
"""Of an output that is too long for the model, this much is kept for people."""


@dataclass(frozen=True, slots=True)
class InvokeTool:
    """Use case: let a tool run, if it may."""

    policy: CommandPolicy
    clock: Clock
    max_output_chars: int

    def __call__(
        self,
        call: ToolCallRequest,
        *,
        tools: Mapping[str, ToolSpec],
        pack: SpecialistPack,
        attempt: int,
        context: ToolContext,
        limit_chars: int | None = None,
    ) -> Prepared:
        """Make a call ready; one that may not run is answered at once.

        `tools` are those that the run was given at its start, `pack` is what executes them today, `limit_chars` is how
        much of the output the model can take.
        """
        spec = tools.get(call.tool) or _hidden(pack, call.tool)
        if spec is None:
            known = ", ".join(tools)
            return _refused(call, {}, "UnknownTool", f"there is no tool {call.tool!r}; the tools are: {known}")
        try:
            args = arguments_from(call.arguments)
        except BadArguments as problem:
            return _refused(call, {"unparsed": call.arguments}, "BadArguments", f"{problem}; send a JSON object")
        problems = problems_with(args, spec.parameters)
        if problems:
            return _refused(call, args, "BadArguments", f"{'; '.join(problems)}")
        if spec.command_argument:
            ruling = self.policy.judge(str(args.get(spec.command_argument, "")))
            if ruling.verdict is not Verdict.ALLOW:
                return _ruled_out(call, args, ruling, command=str(args[spec.command_argument]))

        async def effect() -> Sequence[Body]:
            return await self._execute(call, spec, args, pack, context, limit_chars or self.max_output_chars)

        called = ToolCalled(tool=call.tool, args=args, call_id=call.call_id, attempt=attempt)
        return Prepared((called,), effect)

    async def _execute(
        self,
        call: ToolCallRequest,
        spec: ToolSpec,
        args: Mapping[str, Any],
        pack: SpecialistPack,
        context: ToolContext,
        limit_chars: int,
    ) -> Sequence[Body]:
        started = self.clock.monotonic()

        def erred(error_type: str, message: str) -> ToolErred:
            return ToolErred(
                tool=call.tool,
                error_type=error_type,
                error_message=message,
                call_id=call.call_id,
                changed=spec.effect is Effect.CHANGES_WORKSPACE,
                duration_s=self.clock.monotonic() - started,
            )

        try:
            async with asyncio.timeout(context.timeout_s + GRACE_S):
                result = await _executor_of(pack).execute_tool(call.tool, args, context)
            return (_returned(call, result, self.clock.monotonic() - started, limit_chars),)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return (erred("CancelledError", "the tool cancelled itself"),)
        except TimeoutError:
            waited_s = self.clock.monotonic() - started
            return (erred("TimeoutError", f"{call.tool} did not end by itself and was ended after {waited_s:.1f} s"),)
        except PermissionError as problem:
            text = str(problem) or "permission denied"
            return (erred("PermissionError", text), _violation(call, text))
        except KeyError as problem:
            if problem.args == (call.tool,):
                return (erred("UnknownTool", f"the tool {call.tool!r} is no longer there"),)
            return (erred("KeyError", str(problem)),)
        except Exception as problem:  # noqa: BLE001 - a tool is anybody's code: whatever it raises is news for the model
            return (erred(type(problem).__name__, str(problem)[:limit_chars] or "no message"),)


def _returned(call: ToolCallRequest, result: ToolResult, duration_s: float, limit_chars: int) -> ToolReturned:
    shown, whole = fit(*_plain(result.output), limit_chars)
    return ToolReturned(
        tool=call.tool,
        result=shown,
        call_id=call.call_id,
        whole=whole[:MOST_KEPT_CHARS],
        changed=result.changed,
        proved=result.proved,
        sources=result.sources,
        wrote=result.wrote,
        cites=result.cites,
        duration_s=duration_s,
    )


def _hidden(pack: SpecialistPack, name: str) -> ToolSpec | None:
    """Find a tool that is not offered but answers all the same, such as a web tool while the network is off."""
    hidden: Sequence[ToolSpec] = getattr(pack, "hidden_tools", ())  # not every pack has any
    return next((spec for spec in hidden if spec.name == name), None)


def _executor_of(pack: SpecialistPack) -> ToolExecutor:
    if not _executes(type(pack)):
        raise TypeError("its pack cannot execute tools")
    return cast("ToolExecutor", pack)


@lru_cache
def _executes(kind: type) -> bool:
    # Asked for every call, and a runtime protocol takes its time.
    return issubclass(kind, ToolExecutor)


def _plain(output: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return an output as JSON has it, and as text: what JSON lacks (paths, dates, NaN) becomes text."""
    odd = False

    def as_text(value: object) -> str:
        nonlocal odd
        odd = True
        return str(value)

    text = json.dumps(output, ensure_ascii=False, default=as_text)
    if not (odd or "NaN" in text or "Infinity" in text):
        return output, text
    plain: Mapping[str, Any] = json.loads(text, parse_constant=str)
    return plain, json.dumps(plain, ensure_ascii=False)


def fit(output: Mapping[str, Any], whole: str, limit: int) -> tuple[Mapping[str, Any], str]:
    """Cut an output so that the model can read it; `whole` is its JSON text.

    Return what is shown, and the whole if something was cut, else nothing.
    """
    deep = too_deep(output, whole)
    if len(whole) <= limit and not deep:
        return output, ""
    texts = {key: value for key, value in output.items() if isinstance(value, str)}
    rest = len(json.dumps({**output, **dict.fromkeys(texts, "")}, ensure_ascii=False))
    if rest > limit // 2 or deep:
        return {
            "truncated": f"{len(whole)} characters; the whole is in the run's log",
            "start": whole[: limit // 2],
        }, whole
    # The short texts stay whole; the long ones share what is left. JSON's escapes count.
    left = limit - rest
    shown = dict(output)
    lengths = {key: len(json.dumps(value, ensure_ascii=False)) for key, value in texts.items()}
    for number, key in enumerate(sorted(texts, key=lengths.__getitem__)):
        share = left // (len(texts) - number)
        if lengths[key] > share:
            shown[key] = _cut(texts[key], max(share * len(texts[key]) // lengths[key] - _NOTE, 0))
        left -= min(lengths[key], share)
    return shown, whole


_NOTE = 80
"""Room for the note about what was cut."""


def _cut(text: str, limit: int) -> str:
    """Keep the beginning and the end, where the news usually is."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n…[{len(text) - 2 * half} characters cut; the whole is in the run's log]…\n{text[-half:]}"


def _refused(
    call: ToolCallRequest, args: Mapping[str, Any], error_type: str, message: str, proposal: str = ""
) -> Prepared:
    called = ToolCalled(tool=call.tool, args=args, call_id=call.call_id)
    erred = ToolErred(
        tool=call.tool, error_type=error_type, error_message=message, call_id=call.call_id, proposal=proposal
    )
    return Prepared((called, erred))


def _ruled_out(call: ToolCallRequest, args: Mapping[str, Any], ruling: Ruling, command: str) -> Prepared:
    if ruling.verdict is Verdict.ASK:
        message = f"{ruling.reason}. It was not run; it is proposed to the person in the result. Go on without it."
        return _refused(call, args, "NeedsApproval", message, proposal=command)
    refused = _refused(call, args, "PermissionError", ruling.reason)
    return Prepared((*refused.bodies, _violation(call, ruling.reason)))


def _violation(call: ToolCallRequest, message: str) -> SecurityViolated:
    return SecurityViolated(event_type=SANDBOX_VIOLATION, tool=call.tool, error_message=message, call_id=call.call_id)
