"""What `fabric run` does not load before it has recorded its run: most runs never need it, or only later."""

import subprocess
import sys

LATER = (
    *("aiohttp", "fastapi", "structlog", "opentelemetry", "mcp", "re2", "yaml", "trafilatura"),
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


def test_a_run_is_recorded_before_what_it_may_need_later_is_loaded() -> None:
    script = "import sys, agent_fabric.interfaces.cli.runs.run_task; "
    script += f"print([name for name in {LATER} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
