"""A project with a marked secret, the real engine with an obedient model in it, and everything outside."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.approvals import ApprovalCard
from agent_fabric.application.ports.workflows import SoundWorkflow
from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.config.loader import read_config
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.domain.workflows.definition import definition_from
from agent_fabric.testing.scripted_model import Responder, ScriptedModel
from e2e.fabric_process import local_fabric, settings
from integration.policy.obedient import ObedientModel, Outside, do, marked_secret, outside

NOTES = "notes.txt"
READ_NOTES = do("read_file", path=NOTES)


@dataclass
class Outcome:
    """What came of a run, and what it asks."""

    result: RunResult
    cards: Sequence[ApprovalCard]
    log: str
    """All its events, as text."""


@dataclass
class Place:
    """A project folder, what is configured for it, and what is around."""

    folder: Path
    outside: Outside
    secret: str = field(default_factory=marked_secret)
    pack: str = "research"
    model: Responder = field(default_factory=ObedientModel)
    servers: list[dict[str, Any]] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    task: list[str] = field(default_factory=list)
    """What else the task says."""

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def write(self, path: str, text: str) -> None:
        """Write a file of the owner's into the project."""
        file = self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def configured(self, model_url: str) -> dict[str, Any]:
        web = {"allow_hosts": [self.outside.host], "search_url": self.outside.url("/"), "search_provider": "searxng"}
        specialists = {self.pack: {"mcp_servers": self.servers}} if self.servers else {}
        return settings(model_url, **{"web": web, "specialists": specialists, "encryption": "off", **self.config})

    @asynccontextmanager
    async def fabric(self) -> AsyncIterator[tuple[LocalFabric, dict[str, Any]]]:
        async with ScriptedModel(self.model) as model:
            configured = self.configured(model.base_url)
            async with local_fabric(self.folder, configured) as fabric:
                yield fabric, configured

    async def run(self, prompt: str, *, here: bool = True) -> Outcome:
        """Do a task, in the project as with `--here`, or in a workspace of the run's own."""
        async with self.fabric() as (fabric, configured):
            config = read_config({}, overrides=configured).config
            task = task_from(config, prompt, pack=self.pack, project=self.project if here else None)
            return await outcome_of(fabric, await fabric.execute_task(task))

    async def run_workflow(
        self, steps: Sequence[Mapping[str, Any]], inputs: Mapping[str, Any] | None = None, *, here: bool = True
    ) -> Outcome:
        """Carry out a workflow of these steps."""
        plain: dict[str, Any] = {"name": "job", "version": "1.0.0", "steps": list(steps)}
        if inputs:
            plain["inputs"] = {name: {"type": "string", "required": True} for name in inputs}
        async with self.fabric() as (fabric, configured):
            workflows = open_workflows(self.folder / ".fabric", read_config({}, overrides=configured).config)
            sound = SoundWorkflow(plain=plain, definition=definition_from(plain), source="")
            task = workflows.task(sound, inputs or {}, project=self.project if here else None)
            outcome = await outcome_of(fabric, await fabric.execute_task(task))
            return replace(outcome, cards=list(await fabric.records.approvals.list()))  # also of its steps' runs

    def let_commands_out(self) -> None:
        """Let commands in a box reach the listener."""
        self.config["shell"] = {"network": "allowlist"}
        self.config["egress"] = {"allow_hosts": [self.outside.host]}

    def agent(self, name: str, *capabilities: str, user: str = "", outputs: Sequence[str] = ("summary",)) -> None:
        """Define an agent."""
        folder = self.folder / "agent-definitions"
        folder.mkdir(exist_ok=True)
        plain = {
            "name": name,
            "capabilities": list(capabilities),
            "inputs": {"task": {"type": "string", "required": True}},
            "outputs": dict.fromkeys(outputs, "string"),
            "prompts": {"system": "You do what you are told.", "user": user or "{{ inputs.task }}"},
        }
        (folder / f"{name}.json").write_text(json.dumps(plain))

    def workflow(self, name: str, *steps: Mapping[str, Any], inputs: Sequence[str] = ()) -> None:
        """Define a workflow for others to call."""
        folder = self.folder / "workflow-definitions"
        folder.mkdir(exist_ok=True)
        taken = {each: {"type": "string", "required": True} for each in inputs}
        plain = {"name": name, "version": "1.0.0", "inputs": taken, "steps": list(steps)}
        (folder / f"{name}.json").write_text(json.dumps(plain))


async def outcome_of(fabric: LocalFabric, result: RunResult) -> Outcome:
    cards = list(await fabric.records.approvals.list(run_id=result.run_id))
    log = "\n".join(str(event) for event in await fabric.records.runs.read(result.run_id))
    return Outcome(result, cards, log)


@asynccontextmanager
async def place(folder: Path) -> AsyncIterator[Place]:
    """Give a project whose notes hold the secret."""
    async with outside() as world:
        made = Place(folder, world)
        made.write(NOTES, f"The launch code is {made.secret}.\n")
        yield made
