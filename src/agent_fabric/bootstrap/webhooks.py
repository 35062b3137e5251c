"""Joins what deliveries from others need."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.bus import Bus
from agent_fabric.application.ports.limits import Rate
from agent_fabric.application.runs.dispatch_runs import DispatchRuns
from agent_fabric.application.webhooks.receive_delivery import DeliverySource, ReceiveDelivery
from agent_fabric.bootstrap.limits import Limits
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.bootstrap.triggered_tasks import TriggeredTasks
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.limits import how_often
from agent_fabric.config.schema.webhooks import WebhookConfig
from agent_fabric.domain.errors import FabricError, RunNotFound
from agent_fabric.domain.ids import RunId
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
    workflows = open_workflows(root, config)
    tasks = TriggeredTasks(open_workflows(root, config), root.absolute().parent, limits.caps)
    reading = asyncio.Lock()

    async def armed(source: str) -> Sequence[str]:
        async with reading:
            files = await asyncio.to_thread(workflows.files.list)
        found = [each for each in files if each.definition is not None]
        return [each.name for each in found if each.definition and source in each.definition.triggers.webhook]

    return ReceiveDelivery(
        sources={name: _source(each) for name, each in config.webhooks.items()},
        resolve=local.secrets.chain.resolve,
        book=local.records.storage.deliveries,
        bus=bus,
        limiter=limits.known,
        start=_StartWorkflow(tasks, local, dispatch, limits),
        clock=SystemClock(),
        letters=local.records.storage.automation.letters,
        armed=armed,
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

    task_for: TriggeredTasks
    local: LocalFabric
    dispatch: DispatchRuns
    limits: Limits

    async def __call__(self, source: str, workflow: str, inputs: Mapping[str, Any], run_id: RunId) -> None:
        if await self._exists(run_id):
            return
        task = await self.task_for(f"webhook {source}", workflow, inputs)
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

    async def _exists(self, run_id: RunId) -> bool:
        try:
            await self.local.records.storage.reader.status(run_id)
        except RunNotFound:
            return False
        return True
