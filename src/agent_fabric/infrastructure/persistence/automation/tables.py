"""The tables of automation, together."""

from agent_fabric.application.ports.automation import AutomationStore
from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal, SqlDeadLetters
from agent_fabric.infrastructure.persistence.automation.firings import (
    SqlBacklog,
    SqlFiringHistory,
    SqlFiringOverview,
    SqlFiringQueue,
    SqlHeartbeats,
)
from agent_fabric.infrastructure.persistence.automation.schedules import SqlScheduleRepository
from agent_fabric.infrastructure.persistence.automation.sensors import SqlSensors
from agent_fabric.infrastructure.persistence.automation.subscriptions import SqlSubscriptions
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.sql import Database


def open_automation(database: Database, runs: SqlRunRepository) -> AutomationStore:
    """Return the tables of automation."""
    seal, subscriptions = LetterSeal(database.keys), SqlSubscriptions(database)
    return AutomationStore(
        schedules=SqlScheduleRepository(database),
        queue=SqlFiringQueue(database, runs, seal),
        history=SqlFiringHistory(database),
        overview=SqlFiringOverview(database),
        backlog=SqlBacklog(database),
        heartbeats=SqlHeartbeats(database),
        sensors=SqlSensors(database, runs, seal),
        subscriptions=subscriptions,
        outgoing=subscriptions,
        letters=SqlDeadLetters(database, seal, runs),
    )
