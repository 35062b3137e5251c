"""Joins what deliveries from others need."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_fabric.application.automation.receive_delivery import Commit, DeliverySource, ReceiveDelivery
from agent_fabric.application.ports.automation import Begin
from agent_fabric.application.ports.bus import BusMessage
from agent_fabric.application.ports.limits import Rate
from agent_fabric.application.runs.claimed_run import ClaimedRun
from agent_fabric.application.runs.dispatch_runs import DispatchRuns
from agent_fabric.bootstrap.limits import Limits
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.bootstrap.triggered_tasks import TriggeredTasks
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.config.schema.automation import WebhookConfig
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.limits import how_often
from agent_fabric.domain.automation.webhooks import Scheme, Signing
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.infrastructure.clock import SystemClock


def build_webhooks(
    root: Path,
    config: FabricConfig,
    local: LocalFabric,
    dispatch: DispatchRuns,
    limits: Limits,
    *,
    begin: Begin,
    tell: Callable[[BusMessage], None],
) -> ReceiveDelivery:
    """Return the use case that takes deliveries; `begin` gets runs that nobody drives at once."""
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
        tell=tell,
        limiter=limits.known,
        task_for=tasks,
        first_event=local.execute_task.first_event,
        start=_StartRuns(local, dispatch, limits, begin),
        clock=SystemClock(),
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
class _StartRuns:
    """Starts the runs of deliveries, as far as their sender may have runs: else nothing is written."""

    local: LocalFabric
    dispatch: DispatchRuns
    limits: Limits
    begin: Begin

    async def __call__(self, source: str, runs: Sequence[RunId], commit: Commit) -> bool:
        """Commit a delivery and drive its runs; False: it had come before.

        Raises:
            ServerBusy, ServerStopping, TooManyRequests: nothing was written.
        """
        if not runs:
            return await commit() is not None
        await self.limits.count_start(f"webhook:{source}")
        committed = _Committed(commit, self.local)
        try:
            if self.limits.runs is None:
                await self.dispatch(committed)
            else:
                await self.limits.runs(f"webhook:{source}", lambda: self.dispatch(committed))
        except _NothingToDrive:
            return committed.created is not None
        except FabricError:
            if committed.created is None:
                raise
            # It is durable, which is what the sender wants to know; the run is taken up in its turn.
            self.begin(committed.created)
            return True
        assert committed.created is not None
        self.begin(committed.created[1:])
        return True


class _NothingToDrive(Exception):
    """The delivery had come before, or its run is there already."""


@dataclass(slots=True)
class _Committed:
    """Makes a delivery durable, and takes the first of its runs."""

    commit: Commit
    local: LocalFabric
    created: Sequence[RunId] | None = None

    async def __call__(self) -> ClaimedRun | RunResult:
        self.created = await self.commit()
        if not self.created:
            raise _NothingToDrive
        return await self.local.resume_run.take(self.created[0], by="server", new=True)
