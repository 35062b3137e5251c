"""The ports of one store, together. Adapters offer one factory that returns this."""

from typing import TYPE_CHECKING, Protocol

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


class Storage(Protocol):
    """Everything that one fabric folder stores. A part is opened when it is first used."""

    @property
    def clock(self) -> "Clock":
        """The time that all who share the store go by: timers and deadlines are compared with it."""
        ...

    @property
    def runs(self) -> "RunRepository":
        """Runs and their logs."""
        ...

    def look_into_inboxes(self) -> None:
        """Look for new rows in the inboxes of the runs that are driven here, and not at the next poll."""
        ...

    @property
    def mirrors(self) -> "LogMirrors":
        """Copies of the logs for people and scripts."""
        ...

    @property
    def reader(self) -> "RunReader":
        """Status and events of single runs."""
        ...

    @property
    def catalogue(self) -> "RunListing":
        """Lists and searches."""
        ...

    @property
    def open_catalogue(self) -> "RunCatalogue":
        """Lists and searches that leave encrypted runs out."""
        ...

    @property
    def queue(self) -> "RunQueue":
        """The runs that a server takes up."""
        ...

    @property
    def leases(self) -> "RunLeases":
        """Which processes drive runs."""
        ...

    @property
    def pending_work(self) -> "PendingWork":
        """What there is to do, in one look."""
        ...

    @property
    def cluster(self) -> "Cluster | None":
        """The processes that share the store; None: it is a file of one machine."""
        ...

    @property
    def agent_locks(self) -> "NamedLocks":
        """Locks of agents that run one at a time."""
        ...

    @property
    def encryption(self) -> "RunEncryption":
        """The keys of encrypted runs."""
        ...

    @property
    def vectors(self) -> "RunVectors":
        """Embeddings of settled runs."""
        ...

    @property
    def approvals(self) -> "ApprovalRepository":
        """What runs have asked people."""
        ...

    @property
    def users(self) -> "UserRepository":
        """People who can log in."""
        ...

    @property
    def responses(self) -> "ResponseIndex":
        """Which runs have answers that may be used again."""
        ...

    @property
    def ended_logins(self) -> "EndedLogins":
        """Logins that were ended before their time."""
        ...

    @property
    def api_keys(self) -> "ApiKeyRepository":
        """API keys."""
        ...

    @property
    def idempotency(self) -> "IdempotencyStore":
        """Requests that may come more than once."""
        ...

    @property
    def deliveries(self) -> "DeliveryStore":
        """Webhook deliveries."""
        ...

    @property
    def outbox(self) -> "Outbox":
        """What the bus has not been told of yet."""
        ...

    @property
    def automation(self) -> "AutomationStore":
        """Schedules, their firings and dead letters."""
        ...

    @property
    def memory(self) -> "MemoryStore":
        """Documents and facts that agents look up."""
        ...

    @property
    def nodes(self) -> "NodeRepository":
        """Machines of the fleet."""
        ...

    @property
    def node_invites(self) -> "InviteRepository":
        """Invitations for machines."""
        ...

    @property
    def fleet_plans(self) -> "PlanRepository":
        """Plans for many machines."""
        ...

    @property
    def node_presence(self) -> "NodePresence":
        """Which machines are there."""
        ...

    @property
    def node_work(self) -> "NodeWork":
        """Which machines there is something to do for."""
        ...

    @property
    def node_calls(self) -> "CallRelay":
        """Calls of machines between servers."""
        ...

    @property
    def node_commands(self) -> "CommandRepository":
        """Commands for machines."""
        ...

    @property
    def channels(self) -> "ChannelStore":
        """People on channels, what they wrote, and what is sent to them."""
        ...

    @property
    def evals(self) -> "EvalRepository":
        """Evaluations."""
        ...

    @property
    def sessions(self) -> "SessionRepository":
        """Conversations with people."""
        ...

    @property
    def messages(self) -> "SessionMessages":
        """What was said in them."""
        ...

    @property
    def message_queue(self) -> "MessageQueue":
        """What waits to be said in them."""
        ...

    @property
    def trials(self) -> "TrialOutcomes":
        """What came of their trials."""
        ...

    def counters(self) -> "Counters":
        """Return new counters for rate limits; what they count is shared by all processes."""
        ...

    @property
    def acts(self) -> "ActLog":
        """Administrative acts."""
        ...

    @property
    def chain(self) -> "AuditChain":
        """The audit chain over all runs."""
        ...

    @property
    def logs(self) -> "LogInspector":
        """Recomputes the hashes of logs."""
        ...

    @property
    def retention(self) -> "RetentionStore":
        """Deletes old runs."""
        ...

    @property
    def fingerprints(self) -> "KeyFingerprints":
        """Which keys all processes share."""
        ...

    @property
    def gauge(self) -> "StoreGauge":
        """Measures the store."""
        ...

    @property
    def copies(self) -> "StoreCopies":
        """Copies for backups."""
        ...

    def close(self) -> None:
        """Finish every write and close all connections."""
        ...
