"""What `fabric run` does not load before it has recorded its run, and `fabric chat` before its prompt."""

import subprocess
import sys

LATER = (
    *("aiohttp", "fastapi", "pydantic", "structlog", "opentelemetry", "mcp", "re2", "yaml", "trafilatura"),
    "agent_fabric.application.ports.mcp",
    "agent_fabric.domain.runs.changes",
    "agent_fabric.domain.policy.command_lines.grammar",
    "agent_fabric.domain.evidence.commands",
    "agent_fabric.domain.policy.injection",
    "agent_fabric.domain.policy.defaults",
    "agent_fabric.domain.policy.read_only",
    "agent_fabric.domain.workflows.checks.check",
    "agent_fabric.infrastructure.runs.changes.recorder",
    "agent_fabric.infrastructure.secrets.redaction",
    "agent_fabric.infrastructure.packs.engineering",
    "agent_fabric.infrastructure.sandbox.bubblewrap",
    "agent_fabric.infrastructure.sandbox.unconfined",
)
LATER_IN_A_CHAT = (
    *("aiohttp", "fastapi", "mcp", "pydantic", "structlog", "yaml", "zoneinfo"),
    "agent_fabric.application.chat.serve_turns",
    "agent_fabric.application.ports.channels",
    "agent_fabric.domain.automation",
    "agent_fabric.domain.channels",
    "agent_fabric.infrastructure.cluster",
)


def test_a_run_is_recorded_before_what_it_may_need_later_is_loaded() -> None:
    assert loaded_with("agent_fabric.interfaces.cli.runs.run_task", LATER) == "[]"


def test_a_chat_prompts_before_what_it_may_need_later_is_loaded() -> None:
    assert loaded_with("agent_fabric.interfaces.cli.chat.chat_loop", LATER_IN_A_CHAT) == "[]"


def loaded_with(module: str, names: tuple[str, ...]) -> str:
    script = f"import sys, {module}; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()
