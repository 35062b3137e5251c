"""Schedules, sensors and messages of a fabric folder. Runs that are created here are driven by this process."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from agent_fabric.application.automation.explain_schedule import ExplainSchedule, simulate
from agent_fabric.bootstrap.records import Records, open_records, owner_here
from agent_fabric.domain.automation.schedule import Rule, interval_from, zone_of
from agent_fabric.domain.errors import ConfigError, FolderHeld
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.automation.cronsim_walls import read_cron, use_own_zones
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.place import Noun, Place
from agent_fabric.interfaces.views.automation import schedule_object, schedule_objects
from agent_fabric.wire.automation import BACKFILL, CRONTAB, EXPLANATION, FIRINGS, PLAN, SCHEDULE, WITHDRAWN
from agent_fabric.wire.shape import Json

if TYPE_CHECKING:
    from agent_fabric.bootstrap.automation import Automation
    from agent_fabric.bootstrap.local import LocalFabric
    from agent_fabric.client.schedules import Schedules as ServerSchedules

T = TypeVar("T")


class LocalAutomation:
    """What starts runs in a fabric folder. Only what changes something needs more than the store."""

    def __init__(self, root: Path, records: Records) -> None:
        self.root = root
        self.store = store = records.storage.automation
        self.explain = ExplainSchedule(store.history, read_cron, records.storage.clock, store.overview)
        self._opened = AsyncExitStack()
        self._joined: tuple[Automation, LocalFabric] | None = None
        self._created: list[RunId] = []
        """Runs that were created here and are not driven yet."""

    async def join(self) -> "Automation":
        """Return the use cases; what drives runs is joined with them."""
        if self._joined is None:
            from agent_fabric.bootstrap.automation import build_automation  # noqa: PLC0415 - see above
            from agent_fabric.bootstrap.local import open_local  # noqa: PLC0415 - as above

            loaded = configuration(self.root)
            local = await self._opened.enter_async_context(open_local(self.root, loaded, None, asks_here=False))
            automation = build_automation(self.root, loaded.config, local, begin=self._created.extend)
            self._opened.push_async_callback(automation.aclose)
            self._joined = automation, local
        return self._joined[0]

    async def drive_created(self) -> None:
        """Drive the runs that were created here to their ends."""
        while self._created:
            created = self._created.copy()
            self._created.clear()
            await asyncio.gather(*map(self._drive, created))

    async def aclose(self) -> None:
        await self._opened.aclose()

    async def _drive(self, run_id: RunId) -> None:
        """Drive a run; one that works in the project waits until no other one does."""
        from agent_fabric.application.runs.take_up_runs import FOLDER_RETRY_S  # noqa: PLC0415 - as above

        assert self._joined is not None, "a run was created"
        while True:
            try:
                await self._joined[1].resume_run(run_id)
            except FolderHeld:
                await asyncio.sleep(FOLDER_RETRY_S)
            else:
                return


def opens(kind: Callable[[LocalAutomation], T]) -> Callable[[Place], AbstractAsyncContextManager[T]]:
    """Return what opens the automation of a folder as something that commands work on."""

    @asynccontextmanager
    async def open_here(at: Place) -> AsyncIterator[T]:
        root = at.root()
        with open_records(root) as records:
            here = LocalAutomation(root, records)
            try:
                yield kind(here)
            finally:
                await here.aclose()

    return open_here


class LocalSchedules:
    """The schedules of a fabric folder."""

    def __init__(self, here: LocalAutomation) -> None:
        self._store, self._drive_created = here.store, here.drive_created
        self._join, self._explain = here.join, here.explain

    async def add(self, wish: Mapping[str, Any]) -> Json:
        made = await (await self._join()).manage.add(wish, by=owner_here())
        return await schedule_object(made, self._explain)

    async def import_crontab(self, wish: Mapping[str, Any]) -> Json:
        done = await (await self._join()).import_crontab(
            wish["crontab"],
            by=owner_here(),
            timezone=wish["timezone"],
            system=wish["system"],
            dry_run=wish["dry_run"],
        )
        return CRONTAB.dump(done)

    async def list(self) -> Sequence[Json]:
        return await schedule_objects(await self._store.schedules.list(), self._explain)

    async def show(self, name: str) -> Json:
        return await schedule_object(await self._store.schedules.find(name), self._explain)

    async def change(self, name: str, wish: Mapping[str, Any]) -> Json:
        found = await self._store.schedules.find(name)
        changed = await (await self._join()).manage.change(found, wish, by=owner_here())
        return await schedule_object(changed, self._explain)

    async def remove(self, name: str) -> Json:
        found = await self._store.schedules.find(name)
        await (await self._join()).manage.remove(found, by=owner_here())
        return SCHEDULE.dump(found)

    async def fire(self, name: str) -> RunId:
        found = await self._store.schedules.find(name)
        run_id = await (await self._join()).manage.fire(found, by=owner_here())
        await self._drive_created()
        return run_id

    async def backfill(self, name: str, wish: Mapping[str, Any]) -> Json:
        found = await self._store.schedules.find(name)
        done = await (await self._join()).backfill(
            found,
            wish["from"],
            wish["to"],
            by=owner_here(),
            dry_run=wish["dry_run"],
            at_once=wish["concurrency"],
            confirmed=wish["confirmed"],
        )
        if not done.dry_run:
            await self._drive_queued(found.name, len(done.queued))
        return BACKFILL.dump(done)

    async def withdraw(self, name: str) -> Json:
        found = await self._store.schedules.find(name)
        return WITHDRAWN.dump(await (await self._join()).backfill.withdraw(found, by=owner_here()))

    async def _drive_queued(self, name: str, count: int) -> None:
        """Start queued firings one after another until there are none left."""
        for _ in range(count):
            await (await self._join()).fire.tick()
            await self._drive_created()
            if not any(firing.trigger == name for firing, _ in await self._store.queue.waiting(limit=1_000)):
                return

    async def firings(self, name: str, *, limit: int = 50) -> Sequence[Json]:
        found = await self._store.schedules.find(name)
        shown: Sequence[Json] = FIRINGS.dump(await self._store.history.firings(found.name, limit=limit))["firings"]
        return shown

    async def why(self, name: str, at: str) -> Json:
        return EXPLANATION.dump(await self._explain(name, at))

    async def simulate(self, name: str, start: float | None, end: float | None) -> Sequence[Json]:
        found = await self._store.schedules.find(name)
        return planned_by(found.rule, start, end)

    async def tick(self) -> Sequence[RunId]:
        """Fire what is due, and see the runs through."""
        fire = (await self._join()).fire
        await fire.beat()
        started = await fire.tick()
        await self._drive_created()
        return started


def rule_from(cron: str | None, every: str | None, timezone: str | None, at: Place) -> Rule | None:
    """Return a rule that is no schedule yet; None: none was typed."""
    if cron is None and every is None:
        return None
    if cron is not None and every is not None:
        raise ConfigError("A rule is a cron expression or an interval", hint="Leave one of them out.")
    use_own_zones()
    zone = timezone or configuration(at.root()).config.automation.timezone
    seconds = None if every is None else interval_from(every)
    rule = Rule(cron_expression=cron or "", every_s=seconds, anchor=time.time(), timezone=zone_of(zone).key)
    rule.timing(read_cron)
    return rule


def planned_by(rule: Rule, start: float | None, end: float | None) -> Sequence[Json]:
    """Return when a rule is due in a period."""
    begin = time.time() if start is None else start
    found: Sequence[Json] = PLAN.dump(simulate(rule, read_cron, begin, end))["planned"]
    return found


SCHEDULES = Noun(opens(LocalSchedules), lambda client: client.schedules)
Schedules: TypeAlias = "LocalSchedules | ServerSchedules"
