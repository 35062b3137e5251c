"""The pack of workflow steps: commands, requests, and the actions of installed packages."""

from collections.abc import Sequence

from agent_fabric.application.ports.http import HttpSender
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.constants import SHELL_DEFAULT_TIMEOUT_S
from agent_fabric.domain.tools.specs import ToolSpec
from agent_fabric.infrastructure.packs.actions import Action
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def
from agent_fabric.infrastructure.packs.sandboxed_tools import shell_tool
from agent_fabric.infrastructure.tools.files import READ_FILE, WRITE_FILE, ReadFile, WriteFile
from agent_fabric.infrastructure.tools.http import HTTP_REQUEST, MakeRequest
from agent_fabric.infrastructure.tools.tool_objects import ToolFunction


def step_pack(
    sandbox: Sandbox,
    *,
    sender: HttpSender,
    actions: Sequence[Action] = (),
    shell_timeout_s: float = SHELL_DEFAULT_TIMEOUT_S,
    more: Sequence[tuple[ToolSpec, ToolFunction]] = (),
) -> BaseSpecialistPack:
    """Return a pack with `shell`, `http_request`, two for files and one for each action. No model sees it."""
    return BaseSpecialistPack(
        system_prompt="",
        tools=(
            shell_tool(sandbox, timeout_s=shell_timeout_s),
            (HTTP_REQUEST, MakeRequest(sender)),
            (READ_FILE, ReadFile(sandbox)),
            (WRITE_FILE, WriteFile(sandbox)),
            *(action.tool() for action in actions),
            *more,
        ),
        finish=make_finish_tool_def({}),
    )
