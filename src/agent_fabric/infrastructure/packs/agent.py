"""Makes packs of agents: a prompt from their file, and the tools that their capabilities name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.runs.task import AgentBrief
from agent_fabric.domain.tools.capabilities import CAPABILITIES, servers_of, tools_of
from agent_fabric.domain.tools.specs import FINISH_TASK, ToolContext, ToolResult, ToolSpec
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack
from agent_fabric.infrastructure.packs.sandboxed_tools import Tools, workspace_tools
from agent_fabric.infrastructure.packs.wrapped_pack import WrappedPack

if TYPE_CHECKING:
    from agent_fabric.infrastructure.packs.research import ResearchDesk


_WEB = tools_of(("web-search", "web-fetch", "evidence"))
_RECALL = tools_of(("recall",))
_KNOWLEDGE = tools_of(("knowledge",))
_LEARNING = tools_of(("learning",))


def build_agent_pack(
    agent: AgentBrief,
    sandbox: Sandbox,
    desk: "Callable[[], ResearchDesk]",
    *,
    shell_timeout_s: float,
    network_allowed: bool,
) -> BaseSpecialistPack:
    """Return an agent that builds on no pack, with the tools that its capabilities name, but for a browser's.

    `desk` is called only for tools of research. Without the network, those of the web answer with a refusal.
    """
    wanted = tools_of(agent.capabilities)
    web = desk().web_tools() if wanted & _WEB else ()
    tools: Tools = (
        *workspace_tools(sandbox, shell_timeout_s=shell_timeout_s),
        *(web if network_allowed else ()),
        *([desk().recall_tool()] if wanted & _RECALL else ()),
        *(desk().knowledge_tools() if wanted & _KNOWLEDGE else ()),
        *(desk().learning_tools() if wanted & _LEARNING else ()),
    )
    return BaseSpecialistPack(
        system_prompt=_with_ending(agent.system_prompt, agent.finish),
        tools=tuple(each for each in tools if each[0].name in wanted),
        hidden=() if network_allowed else tuple(each for each in web if each[0].name in wanted),
        finish=FinishSpec(parameters=agent.finish),
    )


class AgentOnPack(WrappedPack):
    """An agent that builds on a pack: its prompt comes after the pack's, and what the pack demands still holds.

    Where the agent names capabilities, it has only those tools of the pack that they stand for.
    """

    def __init__(self, inner: SpecialistPack, agent: AgentBrief) -> None:
        super().__init__(inner)
        self._agent = agent
        self._tools = tools_of(agent.capabilities)
        self._servers = tuple(f"mcp__{server}__" for server in servers_of(agent.capabilities))

    @property
    def system_prompt(self) -> str:
        return self._with_agent(super().system_prompt)

    @property
    def compact_prompt(self) -> str | None:
        prompt = super().compact_prompt
        return None if prompt is None else self._with_agent(prompt)

    @property
    def tool_definitions(self) -> Sequence[ToolSpec]:
        return [spec for spec in super().tool_definitions if self._may_use(spec.name)]

    @property
    def compact_tools(self) -> Sequence[ToolSpec] | None:
        """The few of the pack; all that were asked for, where the agent asks for some."""
        return None if self._agent.capabilities else super().compact_tools

    @property
    def hidden_tools(self) -> Sequence[ToolSpec]:
        return [spec for spec in super().hidden_tools if self._may_use(spec.name)]

    @property
    def notices(self) -> Sequence[str]:
        """Those of the pack, and which capabilities it has no tools for."""
        there = {spec.name for spec in (*self.tool_definitions, *self.hidden_tools)}
        lacking = [
            name
            for name in self._agent.capabilities
            if name in CAPABILITIES and there.isdisjoint(CAPABILITIES[name].tools)
        ]
        said = f"The pack {self._agent.pack!r} has no tools for {', '.join(lacking)}"
        return [*super().notices, said] if lacking else super().notices

    @property
    def finish(self) -> FinishSpec:
        """The agent's outputs, under the pack's rules."""
        finish = super().finish
        if not self._agent.finish:
            return finish
        cites = "citations" in self._agent.finish.get("properties", {})
        return replace(finish, parameters=self._agent.finish, needs_citations=finish.needs_citations and cites)

    async def execute_tool(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if not self._may_use(name):
            raise KeyError(name)
        return await super().execute_tool(name, args, context)

    def _may_use(self, name: str) -> bool:
        return not self._agent.capabilities or name in self._tools or name.startswith(self._servers or ("\0",))

    def _with_agent(self, prompt: str) -> str:
        return "\n\n".join(filter(None, [prompt, _with_ending(self._agent.system_prompt, self._agent.finish)]))


def _with_ending(prompt: str, finish: Mapping[str, Any]) -> str:
    """Add how the work ends: the author of the agent need not know."""
    outputs = ", ".join(finish.get("properties", {}))
    return f"{prompt}\n\nEnd by calling {FINISH_TASK} with your result: {outputs}." if outputs else prompt
