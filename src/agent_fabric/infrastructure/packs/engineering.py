"""The engineering pack: plan, implement, test, review, iterate."""

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.packs.contents import CHANGED, CHECKED
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack
from agent_fabric.infrastructure.packs.prompts.engineering import COMPACT_PROMPT_ENGINEERING, SYSTEM_PROMPT_ENGINEERING
from agent_fabric.infrastructure.packs.sandboxed_tools import workspace_tools
from agent_fabric.infrastructure.packs.tool_defs import make_finish_tool_def
from agent_fabric.infrastructure.tools.files import WRITE_FILE, WriteFile
from agent_fabric.infrastructure.tools.shell import SHELL
from agent_fabric.infrastructure.tools.small_models import (
    BEGIN_FILE,
    FIX_LINE,
    WORKSPACE_OVERVIEW,
    BeginFile,
    FixLine,
    WorkspaceOverview,
)

_TEXTS = {"type": "array", "items": {"type": "string"}}

FINISH_ENGINEERING = make_finish_tool_def(
    {
        "summary": {"type": "string", "description": "What was done and what was seen."},
        CHANGED: {**_TEXTS, "description": "Files that you created, changed or deleted."},
        CHECKED: {**_TEXTS, "description": "Commands that succeeded after the last change and show that it works."},
        "artifacts": {**_TEXTS, "description": "Files made or changed."},
        "next_steps": {**_TEXTS, "description": "What a person should do next."},
        "notes": {"type": "string", "description": "Anything else worth knowing."},
    },
    required=("summary",),
    needs_proof=True,
)


def build_engineering_pack(sandbox: Sandbox, *, shell_timeout_s: float = SHELL.timeout_s) -> BaseSpecialistPack:
    """Return an engineer that works in a sandbox."""
    tools = workspace_tools(sandbox, shell_timeout_s=shell_timeout_s)
    shell, _ = tools[0]
    return BaseSpecialistPack(
        system_prompt=SYSTEM_PROMPT_ENGINEERING,
        compact_prompt=COMPACT_PROMPT_ENGINEERING,
        compact_tools=(WORKSPACE_OVERVIEW, shell, BEGIN_FILE, FIX_LINE),
        tools=tools,
        hidden=(
            (WORKSPACE_OVERVIEW, WorkspaceOverview(sandbox)),
            (FIX_LINE, FixLine(sandbox)),
            (BEGIN_FILE, BeginFile(sandbox)),
            (WRITE_FILE, WriteFile(sandbox)),  # what follows a file that was begun
        ),
        finish=FINISH_ENGINEERING,
    )
