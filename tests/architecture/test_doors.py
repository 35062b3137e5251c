"""Doors translate: what they say is decided by use cases, and what they use is joined by `bootstrap`."""

import ast
from pathlib import Path

import pytest

from architecture.test_layers import SOURCE

PREFIX = "agent_fabric.infrastructure."
STILL = {
    "reads or writes files that the person has named on this machine": {
        "cli/evals/eval.py": "evals.eval_files",
        "cli/memory/ingest.py": "memory.local_documents",
        "cli/memory/memory.py": "memory.local_documents",
        "cli/models/models.py": "models.config_edit models.named models.weights.catalogue",
        "cli/place_remote.py": "runs.log.layout",
        "cli/runs/logs.py": "runs.log.jsonl_log",
        "cli/store/db.py": "backup.folder_backups",
        "cli/workflows/workflow_places.py": "workflows.definition_files",
    },
    "shows or tries rules that are not in force, so no use case has them": {
        "cli/doctor.py": "policy.load",
        "cli/policy/policy.py": (
            "policy.load policy.rule_files runs.changes.exposed_files runs.changes.project_folder runs.log.layout"
        ),
    },
    "hands the reader of cron expressions to pure functions of the domain": {
        "cli/automation/local_automation.py": "automation.cronsim_walls",
    },
    "names the type of an adapter that bootstrap has opened": {
        "cli/agents/agents.py": "agents.agent_files",
        "cli/secrets/secrets.py": "secrets.folder_secrets secrets.key_needs secrets.keyring",
        "views/tools.py": "tools.mcp.lazy_servers tools.mcp.servers tools.mcp.tool_conversion",
    },
    "looks at the machine itself": {
        "cli/output.py": "atomic_files installation",
        "cli/runs/run_task.py": "runs.changes.project_folder sandbox.levels",
        "views/examination.py": "machine sandbox.levels secrets.folder_secrets secrets.key_needs secrets.keyring",
    },
    "opens what only this one command uses": {
        "cli/tools/mcp.py": "tools.mcp.lazy_servers",
    },
    "is part of how the server is run": {
        "http/access_log.py": "observability.operations_log",
    },
}
"""Doors that still use adapters, by why. The list only shrinks: a new door asks `bootstrap`, a use case or a port."""


def adapters_of(door: Path) -> set[str]:
    """Return the adapters that a module imports, at once or later."""
    nodes = ast.walk(ast.parse(door.read_text(encoding="utf-8")))
    named = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.removeprefix(PREFIX) for name in named if name.startswith(PREFIX)}


@pytest.mark.proves("RM-6")
def test_no_door_uses_an_adapter_but_those_that_are_listed() -> None:
    doors = SOURCE / "interfaces"
    found = {door.relative_to(doors).as_posix(): adapters_of(door) for door in doors.rglob("*.py")}
    listed = {door: set(adapters.split()) for group in STILL.values() for door, adapters in group.items()}
    assert {door: adapters for door, adapters in found.items() if adapters} == listed
