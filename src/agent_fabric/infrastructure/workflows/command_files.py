"""Files of workflows that run one command each, as lines of crontabs do."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from agent_fabric.application.ports.workflows import WorkflowFile
from agent_fabric.domain.automation.crontab import CrontabJob, script_of
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.problems import WorkflowInvalid
from agent_fabric.domain.errors import NameTaken, StoreUnavailable
from agent_fabric.infrastructure.atomic_files import write_new

MAX_COMMAND_S = 86_400


@dataclass(frozen=True, slots=True)
class CommandFiles:
    """CommandWorkflows in a folder of definitions."""

    folder: Path
    check: Callable[[Path, str], WorkflowFile]
    """Checks what would stand in a file."""

    async def keep(self, name: str, job: CrontabJob, *, dry_run: bool) -> Callable[[], Awaitable[None]]:
        return await asyncio.to_thread(self._keep, name, job, dry_run=dry_run)

    def _keep(self, name: str, job: CrontabJob, *, dry_run: bool) -> Callable[[], Awaitable[None]]:
        path, text = self.folder / f"{name}.yaml", workflow_text(name, job)
        checked = self.check(path, text)
        if checked.definition is None:
            raise WorkflowInvalid(checked.problems, what=str(path))
        try:
            there = path.read_text(encoding="utf-8") if path.exists() else None
            if there is not None and there != text:
                raise NameTaken(f"There is another file {path.name} already", hint="Rename or delete it.")
            if there is None and not dry_run:
                self.folder.mkdir(parents=True, exist_ok=True)
                write_new(path, text.encode(), mode=0o644)
                return lambda: asyncio.to_thread(path.unlink)
        except (OSError, UnicodeDecodeError) as problem:
            raise StoreUnavailable(f"{path} cannot be written: {problem}", hint="Check the folder's rights.") from None
        return _leave


async def _leave() -> None:
    """Leave a file that was there before."""


def workflow_text(name: str, job: CrontabJob) -> str:
    """Return the file of a workflow that runs a job's command in the project, under the policy like all others."""
    command = json.dumps([job.shell, "-c", _verbatim(script_of(job))], ensure_ascii=False)
    env = {key: _verbatim(value) for key, value in job.env.items()}
    lines = [
        f"# Line {job.line} of a crontab.",
        f"name: {json.dumps(name)}",
        f"description: {json.dumps(job.command[:200], ensure_ascii=False)}",
        "triggers: {here: true}",
        "steps:",
        "  - id: command",
        "    action: run-command",
        f"    command: {command}",
        *([f"    inputs: {json.dumps({'env': env}, ensure_ascii=False)}"] if env else []),
        f"    timeout: {MAX_COMMAND_S}",
    ]
    return "\n".join(lines) + "\n"


def _verbatim(text: str) -> str:
    """Return a text in which nothing is filled in."""
    return f"{{% raw %}}{text}{{% endraw %}}" if "{{" in text or "{%" in text or "{#" in text else text
