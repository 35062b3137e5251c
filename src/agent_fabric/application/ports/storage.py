"""The ports of one store, together. Adapters offer one factory that returns this."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_fabric.application.ports.approvals import ApprovalRepository
    from agent_fabric.application.ports.audit import ActLog, AuditChain, LogInspector, RetentionStore
    from agent_fabric.application.ports.automation import AutomationStore
    from agent_fabric.application.ports.backup import StoreCopies
    from agent_fabric.application.ports.bus import Outbox
    from agent_fabric.application.ports.channels import ChannelStore
    from agent_fabric.application.ports.chat import MessageQueue, SessionMessages, SessionRepository
    from agent_fabric.application.ports.clock import Clock
    from agent_fabric.application.ports.cluster import Cluster
    from agent_fabric.application.ports.embeddings import RunVectors
    from agent_fabric.application.ports.encryption import RunEncryption
    from agent_fabric.application.ports.evals import EvalRepository, TrialOutcomes
    from agent_fabric.application.ports.events import LogMirrors
    from agent_fabric.application.ports.fleet import (
        CallRelay,
        CommandRepository,
        InviteRepository,
        NodePresence,
        NodeRepository,
        NodeWork,
        PlanRepository,
    )
    from agent_fabric.application.ports.idempotency import IdempotencyStore
    from agent_fabric.application.ports.identity import ApiKeyRepository, EndedLogins, UserRepository
    from agent_fabric.application.ports.key_fingerprints import KeyFingerprints
    from agent_fabric.application.ports.leases import NamedLocks, RunLeases
    from agent_fabric.application.ports.limits import Counters
    from agent_fabric.application.ports.memory import MemoryStore
    from agent_fabric.application.ports.pending_work import PendingWork
    from agent_fabric.application.ports.responses import ResponseIndex
    from agent_fabric.application.ports.runs import RunCatalogue, RunListing, RunQueue, RunReader, RunRepository
    from agent_fabric.application.ports.vitals import StoreGauge
    from agent_fabric.application.ports.webhooks import DeliveryStore


class Storage(ABC):
    """Everything that one fabric folder stores. A part is made when it is first used."""

    clock: "Clock"
    """The time that all who share the store go by: timers and deadlines are compared with it."""
    runs: "RunRepository"
    """Runs and their logs."""

    mirrors: "LogMirrors"
    """Copies of the logs for people and scripts."""
    reader: "RunReader"
    """Status and events of single runs."""
    catalogue: "RunListing"
    """Lists and searches."""
    open_catalogue: "RunCatalogue"
    """Lists and searches that leave encrypted runs out."""
    queue: "RunQueue"
    """The runs that a server takes up."""
    leases: "RunLeases"
    """Which processes drive runs."""
    pending_work: "PendingWork"
    """What there is to do, in one look."""
    cluster: "Cluster | None"
    """The processes that share the store; None: it is a file of one machine."""
    agent_locks: "NamedLocks"
    """Locks of agents that run one at a time."""
    encryption: "RunEncryption"
    """The keys of encrypted runs."""
    vectors: "RunVectors"
    """Embeddings of settled runs."""
    approvals: "ApprovalRepository"
    """What runs have asked people."""
    users: "UserRepository"
    """People who can log in."""
    responses: "ResponseIndex"
    """Which runs have answers that may be used again."""
    ended_logins: "EndedLogins"
    """Logins that were ended before their time."""
    api_keys: "ApiKeyRepository"
    """API keys."""
    idempotency: "IdempotencyStore"
    """Requests that may come more than once."""
    deliveries: "DeliveryStore"
    """Webhook deliveries."""
    outbox: "Outbox"
    """What the bus has not been told of yet."""
    automation: "AutomationStore"
    """Schedules, their firings and dead letters."""
    memory: "MemoryStore"
    """Documents and facts that agents look up."""
    nodes: "NodeRepository"
    """Machines of the fleet."""
    node_invites: "InviteRepository"
    """Invitations for machines."""
    fleet_plans: "PlanRepository"
    """Plans for many machines."""
    node_presence: "NodePresence"
    """Which machines are there."""
    node_work: "NodeWork"
    """Which machines there is something to do for."""
    node_calls: "CallRelay"
    """Calls of machines between servers."""
    node_commands: "CommandRepository"
    """Commands for machines."""
    channels: "ChannelStore"
    """People on channels, what they wrote, and what is sent to them."""
    evals: "EvalRepository"
    """Evaluations."""
    sessions: "SessionRepository"
    """Conversations with people."""
    messages: "SessionMessages"
    """What was said in them."""
    message_queue: "MessageQueue"
    """What waits to be said in them."""
    trials: "TrialOutcomes"
    """What came of their trials."""
    acts: "ActLog"
    """Administrative acts."""
    chain: "AuditChain"
    """The audit chain over all runs."""
    logs: "LogInspector"
    """Recomputes the hashes of logs."""
    retention: "RetentionStore"
    """Deletes old runs."""
    fingerprints: "KeyFingerprints"
    """Which keys all processes share."""
    gauge: "StoreGauge"
    """Measures the store."""
    copies: "StoreCopies"
    """Copies for backups."""

    @abstractmethod
    def look_into_inboxes(self) -> None:
        """Look for new rows in the inboxes of the runs that are driven here, and not at the next poll."""
        ...

    @abstractmethod
    def counters(self) -> "Counters":
        """Return new counters for rate limits; what they count is shared by all processes."""
        ...

    @abstractmethod
    def close(self) -> None:
        """Finish every write and close all connections."""
        ...
