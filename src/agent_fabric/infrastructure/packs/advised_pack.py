"""A pack whose results come with advice for the model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.tools.specs import ToolContext, ToolResult
from agent_fabric.infrastructure.packs.wrapped_pack import WrappedPack

_SHELL = "shell"


class AdvisedPack(WrappedPack):
    """Says beside the results of any tool which files are broken now, and beside those of `shell` what was overlooked.

    Tools know nothing of it: one that is new needs nothing but `wrote` in its results.
    """

    def __init__(self, inner: SpecialistPack, sandbox: Sandbox) -> None:
        super().__init__(inner)
        self._sandbox = sandbox

    async def execute_tool(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Let the pack run one of its tools, and add the advice.

        Raises:
            KeyError: it has none of this name.
        """
        command = args.get("command") if name == _SHELL else None
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
