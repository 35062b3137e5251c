"""Joins what deliveries from others need."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.bus import Bus
from agent_fabric.application.ports.limits import Rate
from agent_fabric.application.runs.dispatch_runs import DispatchRuns
from agent_fabric.application.runs.new_task import task_from
from agent_fabric.application.webhooks.receive_delivery import DeliverySource, ReceiveDelivery
from agent_fabric.bootstrap.limits import Limits
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.bootstrap.workflows import Workflows, open_workflows
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.limits import how_often
from agent_fabric.config.schema.webhooks import WebhookConfig
from agent_fabric.domain.errors import FabricError, RunNotFound
from agent_fabric.domain.identity import Kind, Principal, Scope, widened
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Priority, Task
from agent_fabric.domain.webhooks import Scheme, Signing
from agent_fabric.infrastructure.clock import SystemClock


def build_webhooks(
    root: Path,
    config: FabricConfig,
    local: LocalFabric,
    dispatch: DispatchRuns,
    bus: Bus,
    limits: Limits,
) -> ReceiveDelivery:
    """Return the use case that takes deliveries."""
    return ReceiveDelivery(
        sources={name: _source(each) for name, each in config.webhooks.items()},
        resolve=local.secrets.chain.resolve,
        book=local.records.storage.deliveries,
        bus=bus,
        limiter=limits.known,
        start=_StartWorkflow(open_workflows(root, config), local, dispatch, limits),
        clock=SystemClock(),
    )


def _source(config: WebhookConfig) -> DeliverySource:
    return DeliverySource(
        signing=Signing(
            scheme=Scheme(config.scheme),
            header=config.header.lower(),
            timestamp_header=(config.timestamp_header or "").lower(),
        ),
        secret=config.secret,
        workflow=config.workflow or "",
        events=frozenset(config.events),
        rate=None if config.rate is None else Rate(*how_often(config.rate)),
    )


@dataclass(frozen=True, slots=True)
class _StartWorkflow:
    """Starts workflows for deliveries, each once."""

    workflows: Workflows
    local: LocalFabric
    dispatch: DispatchRuns
    limits: Limits
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, source: str, workflow: str, inputs: Mapping[str, Any], run_id: RunId) -> None:
        if await self._exists(run_id):
            return
        async with self._lock:  # files are looked at by one at a time: they remember what they have read
            task = await asyncio.to_thread(self._task, source, workflow, inputs)
        create = partial(self.local.execute_task.create, task, run_id=run_id)
        await self.limits.count_start(f"webhook:{source}")
        try:
            if self.limits.runs is None:
                await self.dispatch(create)
            else:
                await self.limits.runs(f"webhook:{source}", lambda: self.dispatch(create))
        except FabricError:
            if not await self._exists(run_id):  # else the same delivery has come twice at the same time
                raise

    def _task(self, source: str, name: str, inputs: Mapping[str, Any]) -> Task:
        """Return the task to carry out a workflow with those of the inputs that it takes."""
        workflow = self.workflows.get(name)
        taken = {each: inputs[each] for each in inputs if each in workflow.definition.inputs}
        like = task_from(self.workflows.config, "", priority=Priority.SCHEDULED)
        task = self.workflows.tasks.of_workflow(workflow, taken, like)
        assert task.workflow is not None
        sender = Principal(f"webhook {source}", Kind.EXTERNAL, widened((Scope.WORKFLOWS,)))
        return replace(
            task.asked_by(sender),
            workflow=replace(task.workflow, untrusted=(f"webhook {source}",)),
            budget=self.limits.caps.lowered(task.budget),
        )

    async def _exists(self, run_id: RunId) -> bool:
        try:
            await self.local.records.storage.reader.status(run_id)
        except RunNotFound:
            return False
        return True
