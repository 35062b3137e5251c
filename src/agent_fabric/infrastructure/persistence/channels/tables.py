"""The tables of channels, together."""

from functools import cached_property

from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal
from agent_fabric.infrastructure.persistence.channels.files import SqlInboundFiles
from agent_fabric.infrastructure.persistence.channels.inbox import SqlConversations, SqlInboundLog
from agent_fabric.infrastructure.persistence.channels.notify import SqlNotifyPreferences
from agent_fabric.infrastructure.persistence.channels.outbox import SqlChannelOutbox
from agent_fabric.infrastructure.persistence.channels.people import SqlChannelPeople
from agent_fabric.infrastructure.persistence.channels.turns import SqlChannelTurns
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection


class SqlChannels:
    """ChannelStore over the database."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain
        self._seal = LetterSeal(database.keys)

    @cached_property
    def people(self) -> SqlChannelPeople:
        return SqlChannelPeople(self._database, self._chain)

    @cached_property
    def inbound(self) -> SqlInboundLog:
        return SqlInboundLog(self._database, self._seal)

    @cached_property
    def conversations(self) -> SqlConversations:
        return SqlConversations(self._database)

    @cached_property
    def turns(self) -> SqlChannelTurns:
        return SqlChannelTurns(self._database)

    @cached_property
    def outbox(self) -> SqlChannelOutbox:
        return SqlChannelOutbox(self._database, self._seal)

    @cached_property
    def notify(self) -> SqlNotifyPreferences:
        return SqlNotifyPreferences(self._database, self._chain)

    @cached_property
    def files(self) -> SqlInboundFiles:
        return SqlInboundFiles(self._database, self._seal)

    async def prune(self, before: float) -> int:
        queries = (
            "DELETE FROM channel_inbox WHERE received_at < ? AND outcome <> '' RETURNING 1",
            "DELETE FROM channel_outbox WHERE created_at < ? AND status NOT IN ('queued', 'sending') RETURNING 1",
            "DELETE FROM channel_files WHERE created_at < ? RETURNING 1",
        )

        def write(connection: SqlConnection) -> int:
            return sum(len(connection.execute(query, (before,)).fetchall()) for query in queries)

        return await self._database.write(write)

    @property
    def deliveries(self) -> SqlChannelOutbox:
        return self.outbox
