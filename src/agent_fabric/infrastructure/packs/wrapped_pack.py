"""Packs around other packs: advice, and that only one run of an agent works at a time."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.application.ports.tools import ToolExecutor
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.tools.specs import ToolContext, ToolResult, ToolSpec

if TYPE_CHECKING:
    from agent_fabric.application.ports.leases import NamedLocks
    from agent_fabric.domain.tools.skills import Skill
    from agent_fabric.infrastructure.tools.tool_objects import ToolFunction


class WrappedPack:
    """SpecialistPack and ToolExecutor that is another one in everything; a subclass says in what it differs."""

    added: tuple[ToolSpec, ...] = ()
    """Tools that it offers beside those of the inner pack; small models get them, too, since they were asked for."""

    def __init__(self, inner: SpecialistPack, functions: "Mapping[str, ToolFunction] | None" = None) -> None:
        self._inner = inner
        self._functions = dict(functions or {})
        """What runs the added tools, by name."""

    @property
    def system_prompt(self) -> str:
        return self._inner.system_prompt

    @property
    def compact_prompt(self) -> str | None:
        return self._inner.compact_prompt

    @property
    def tool_definitions(self) -> Sequence[ToolSpec]:
        return (*self._inner.tool_definitions, *self.added)

    @property
    def compact_tools(self) -> Sequence[ToolSpec] | None:
        few = self._inner.compact_tools
        return None if few is None else (*few, *self.added)

    @property
    def hidden_tools(self) -> Sequence[ToolSpec]:
        return self._inner.hidden_tools

    @property
    def notices(self) -> Sequence[str]:
        return self._inner.notices

    @property
    def sandbox_level(self) -> str:
        return self._inner.sandbox_level

    @property
    def skills(self) -> "Sequence[Skill]":
        return self._inner.skills

    @property
    def finish(self) -> FinishSpec:
        return self._inner.finish

    async def aopen(self) -> None:
        await self._inner.aopen()

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def execute_tool(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if function := self._functions.get(name):
            return await function(args, context)
        return await cast("ToolExecutor", self._inner).execute_tool(name, args, context)


OPTIONAL: Mapping[str, Any] = {
    "compact_prompt": None,
    "compact_tools": None,
    "hidden_tools": (),
    "notices": (),
    "sandbox_level": "",
    "skills": (),
}
"""Members that packs of others need not have, with what they then are."""


class CompletedPack:
    """A pack of others with the members that it lacks."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name, OPTIONAL[name]) if name in OPTIONAL else getattr(self._inner, name)


class AdvisedPack(WrappedPack):
    """Says beside the results of any tool which files are broken now, and beside those of `shell` what was overlooked.

    Tools know nothing of it: one that is new needs nothing but `wrote` in its results.
    """

    def __init__(self, inner: SpecialistPack, sandbox: Sandbox) -> None:
        super().__init__(inner)
        self._sandbox = sandbox

    async def execute_tool(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        command = args.get("command") if name == "shell" else None
        if not isinstance(command, str):
            result = await super().execute_tool(name, args, context)
            return await self._with_broken(result) if result.wrote else result
        from agent_fabric.infrastructure.tools.advice import CommandAdvice  # noqa: PLC0415 - runs may start no command

        advice = await CommandAdvice.prepare(self._sandbox, command)
        result = await self._with_broken(await super().execute_tool(name, args, context))
        return _with(result, await advice.on(result.output, result.wrote))

    async def _with_broken(self, result: ToolResult) -> ToolResult:
        from agent_fabric.infrastructure.tools.advice import broken_files  # noqa: PLC0415 - as above

        broken = await broken_files(self._sandbox, result.wrote)
        return _with(result, {"broken": broken} if broken else {})


def _with(result: ToolResult, more: Mapping[str, Any]) -> ToolResult:
    return replace(result, output={**result.output, **more}) if more else result


_LOOK_AGAIN_S = 0.1


class PhasedPack(WrappedPack):
    """Another pack that works in the phases which the configuration names."""

    def __init__(self, inner: SpecialistPack, phases: Sequence[str]) -> None:
        super().__init__(inner)
        self._said = f"Work in these phases, in this order: {', '.join(phases)}."

    @property
    def system_prompt(self) -> str:
        return f"{super().system_prompt}\n\n{self._said}"

    @property
    def compact_prompt(self) -> str | None:
        prompt = super().compact_prompt
        return None if prompt is None else f"{prompt}\n\n{self._said}"


class ProvenPack(WrappedPack):
    """Lets runs of another pack fail where nothing bears their result out."""

    @property
    def finish(self) -> FinishSpec:
        return replace(super().finish, require_proof=True)


class OneAtATime(WrappedPack):
    """Opens another pack only when no other run has the agent; a run that waits for a person lets go of it.

    That holds for all processes that share a store.
    """

    def __init__(self, inner: SpecialistPack, name: str, locks: "NamedLocks") -> None:
        super().__init__(inner)
        self._locks = locks
        self._name = name
        self._held = False

    async def aopen(self) -> None:
        while not await self._locks.acquire(self._name):  # noqa: ASYNC110 - the other run may be in another process
            await asyncio.sleep(_LOOK_AGAIN_S)
        self._held = True
        await super().aopen()

    async def aclose(self) -> None:
        try:
            await super().aclose()
        finally:
            if self._held:
                self._held = False
                await self._locks.release(self._name)
