"""The tables of automation, together."""

from functools import cached_property

from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal, SqlDeadLetters
from agent_fabric.infrastructure.persistence.automation.firing_backlog import SqlBacklog, SqlFiringOverview
from agent_fabric.infrastructure.persistence.automation.firing_history import SqlFiringHistory, SqlHeartbeats
from agent_fabric.infrastructure.persistence.automation.firing_queue import SqlFiringQueue
from agent_fabric.infrastructure.persistence.automation.schedules import SqlScheduleRepository
from agent_fabric.infrastructure.persistence.automation.sensors import SqlSensors
from agent_fabric.infrastructure.persistence.automation.subscriptions import SqlSubscriptions
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.sql import Database


class SqlAutomation:
    """AutomationStore over the database."""

    def __init__(self, database: Database, runs: SqlRunRepository) -> None:
        self._database = database
        self._runs = runs
        self._seal = LetterSeal(database.keys)

    @cached_property
    def schedules(self) -> SqlScheduleRepository:
        return SqlScheduleRepository(self._database)

    @cached_property
    def queue(self) -> SqlFiringQueue:
        return SqlFiringQueue(self._database, self._runs, self._seal)

    @cached_property
    def history(self) -> SqlFiringHistory:
        return SqlFiringHistory(self._database)

    @cached_property
    def overview(self) -> SqlFiringOverview:
        return SqlFiringOverview(self._database)

    @cached_property
    def backlog(self) -> SqlBacklog:
        return SqlBacklog(self._database)

    @cached_property
    def heartbeats(self) -> SqlHeartbeats:
        return SqlHeartbeats(self._database)

    @cached_property
    def sensors(self) -> SqlSensors:
        return SqlSensors(self._database, self._runs, self._seal)

    @cached_property
    def subscriptions(self) -> SqlSubscriptions:
        return SqlSubscriptions(self._database)

    @property
    def outgoing(self) -> SqlSubscriptions:
        return self.subscriptions

    @cached_property
    def letters(self) -> SqlDeadLetters:
        return SqlDeadLetters(self._database, self._seal, self._runs)
