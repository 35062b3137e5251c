"""The assistant: whom a person talks to when no specialist is asked for."""

from typing import TYPE_CHECKING

from agent_fabric.infrastructure.packs.base import BaseSpecialistPack
from agent_fabric.infrastructure.packs.prompts.assistant import COMPACT_PROMPT_ASSISTANT, SYSTEM_PROMPT_ASSISTANT
from agent_fabric.infrastructure.packs.sandboxed_tools import workspace_tools
from agent_fabric.infrastructure.packs.tool_defs import make_finish_tool_def
from agent_fabric.infrastructure.tools.files import LIST_FILES, READ_FILE, WRITE_FILE
from agent_fabric.infrastructure.tools.shell import SHELL
from agent_fabric.infrastructure.tools.web import FETCH_URL, WEB_SEARCH

if TYPE_CHECKING:
    from agent_fabric.infrastructure.packs.research import ResearchDesk

_WEB = (WEB_SEARCH.name, FETCH_URL.name)
_FEW = (LIST_FILES.name, READ_FILE.name, WRITE_FILE.name, SHELL.name)
"""The tools that small models get: with a web search they look up what they know, and get lost in what they find."""

FINISH_ASSISTANT = make_finish_tool_def(
    {"summary": {"type": "string", "description": "The answer, for the person who asked."}}, required=("summary",)
)


def build_assistant_pack(desk: "ResearchDesk", *, shell_timeout_s: float = SHELL.timeout_s) -> BaseSpecialistPack:
    """Return an assistant with files, a shell, memory and, where the network is allowed, the web."""
    web = tuple(tool for tool in desk.web_tools() if tool[0].name in _WEB)
    tools = (
        *workspace_tools(desk.sandbox, shell_timeout_s=shell_timeout_s),
        *(web if desk.network_allowed else ()),
        *desk.knowledge_tools(),
        *desk.learning_tools(),
    )
    return BaseSpecialistPack(
        system_prompt=SYSTEM_PROMPT_ASSISTANT,
        compact_prompt=COMPACT_PROMPT_ASSISTANT,
        compact_tools=tuple(spec for spec, _ in tools if spec.name in _FEW),
        tools=tools,
        hidden=() if desk.network_allowed else web,
        finish=FINISH_ASSISTANT,
    )
