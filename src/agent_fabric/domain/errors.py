"""The one family of errors.

FabricError                       anything we can explain to a person; all below are direct heirs but these
├── RecruitError
│   └── PackBroken
├── InvalidDefinition
│   └── WorkflowInvalid           with each problem in its line; see `definitions.problems`
├── RunFilesWithheld
│   └── FolderLinked
├── DriverConflict
│   ├── LeaseLost
│   └── LogWentBack
├── StoreUnavailable
│   └── StoreFull
├── ServerUnreachable, …          what happens between a client and a server; see `client.errors`
└── ModelError
    ├── ModelUnreachable, ModelBusy, ModelTimedOut, ModelForbidden, ModelAnswerUnusable, WeightsUnavailable
    └── ModelRefused
        └── ContextExceeded

Each class has a stable `code` for programs; each instance may carry a `hint` for people.
Interfaces turn codes into exit codes and statuses; nothing else does. A tool that fails is a
result for the model, not an exception; a tool that reaches out of its box raises PermissionError.
"""

from typing import ClassVar


class FabricError(Exception):
    """Something went wrong that we can explain."""

    code: ClassVar[str] = "fabric_error"
    """Given with the class: `class RunNotFound(FabricError, code="run_not_found")`."""

    def __init_subclass__(cls, *, code: str = "") -> None:
        super().__init_subclass__()
        if code:
            cls.code = code

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class ConfigError(FabricError, code="config_invalid"):
    """The configuration, an option or an environment variable is wrong."""


class RecruitError(FabricError, code="pack_unknown"):
    """No such pack, or none fits the task."""


class PackBroken(RecruitError, code="pack_broken"):
    """The pack is there, but cannot be built or opened."""


class DefinitionNotFound(FabricError, code="definition_not_found"):
    """No workflow or agent has this name."""


class InvalidDefinition(FabricError, code="definition_invalid"):
    """The file of a workflow or agent is wrong; nothing was run."""


class InvalidInputs(FabricError, code="inputs_invalid"):
    """What a workflow or agent was given does not fit what it takes; nothing was run."""


class SecretNotFound(FabricError, code="secret_not_found"):
    """No secret has this name."""


class RunNotFound(FabricError, code="run_not_found"):
    """No run has this id."""


class RunFileNotFound(FabricError, code="run_file_not_found"):
    """The run has no such file."""


class RunFilesWithheld(FabricError, code="run_files_withheld"):
    """The run's files cannot be handed out: they lie in a person's project, or are gone."""


class FolderLinked(RunFilesWithheld, code="folder_linked"):
    """A folder of the fabric folder, or the workspace of a run, has become a symbolic link."""


class RunHeld(FabricError, code="run_held"):
    """Another living process drives this run."""


class WorkerNotFound(FabricError, code="worker_not_found"):
    """No living process is called so."""


class RunUndrivable(FabricError, code="run_undrivable"):
    """The run exists, but this program or machine cannot continue it."""

    def __init__(self, message: str, *, hint: str = "", lacks: str = "") -> None:
        super().__init__(message, hint=hint)
        self.lacks = lacks
        """What is missing here; the same words for all runs that need the same."""


class RunKeyMissing(FabricError, code="run_key_missing"):
    """The run is encrypted, and its key is not here."""


class RunSettled(FabricError, code="run_settled"):
    """The run has ended, so that what is asked of it cannot be done any more."""


class RunUnsettled(FabricError, code="run_unsettled"):
    """The run has not ended, and what is asked needs its result."""


class ApprovalNotFound(FabricError, code="approval_not_found"):
    """There is no such question."""


class ApprovalSettled(FabricError, code="approval_settled"):
    """The question has been answered, or can no longer be."""


class ApprovalRefused(FabricError, code="approval_refused"):
    """An answer that does not fit the question, or that this caller may not give."""


class SessionNotFound(FabricError, code="session_not_found"):
    """No session has this id, or none that who asks may see."""


class SessionMoved(FabricError, code="session_moved"):
    """More was said in a session than who writes has seen."""


class MessageNotFound(FabricError, code="message_not_found"):
    """A session has no message with this id."""


class MessageSent(FabricError, code="message_sent"):
    """The turn of a message has begun, so it cannot be changed any more."""


class ScheduleNotFound(FabricError, code="schedule_not_found"):
    """No schedule, sensor or subscription has this name."""


class DeadLetterNotFound(FabricError, code="dead_letter_not_found"):
    """No dead letter has this id."""


class DeadLetterSettled(FabricError, code="dead_letter_settled"):
    """The dead letter was replayed or dropped before."""


class PairingNotFound(FabricError, code="pairing_not_found"):
    """No such pairing code is waiting; a code lasts for an hour and is used once."""


class ChannelNotFound(FabricError, code="channel_not_found"):
    """No channel of this name is configured, or it has no such person or delivery."""


class MemoryNotFound(FabricError, code="memory_not_found"):
    """No fact or document has this id, or more than one begins so."""


class FactRefused(FabricError, code="fact_refused"):
    """A fact is not remembered; nothing was written."""


class FactSettled(FabricError, code="fact_settled"):
    """The fact was reviewed before, or is no longer in use."""


class DocumentUnreadable(FabricError, code="document_unreadable"):
    """There is no text in a document, or it cannot be taken out."""


class EvalNotFound(FabricError, code="eval_not_found"):
    """No evaluation has this id or name, or more than one begins so."""


class EvalHeld(FabricError, code="eval_held"):
    """A living process works on this evaluation."""


class FolderHeld(FabricError, code="folder_held"):
    """Another living run works in this project folder."""

    holder = ""


class DriverConflict(FabricError, code="driver_conflict"):
    """Another process appended to a run that we drive; the only safe answer is to stop."""


class LeaseLost(DriverConflict, code="lease_lost"):
    """This process was away for too long: others may drive its runs."""


class LogWentBack(DriverConflict, code="log_went_back"):
    """The database has lost events that it had confirmed."""


class StoreUnavailable(FabricError, code="store_unavailable"):
    """The store cannot be read or written."""


class StoreFull(StoreUnavailable, code="disk_full"):
    """The disk is full; nothing that was recorded is lost."""


class MissingExtra(FabricError, code="extra_missing"):
    """An optional part is needed but not installed."""

    def __init__(self, extra: str, *, needed_for: str) -> None:
        install = f'Install it with: pip install "agent-fabric[{extra}]"'
        super().__init__(f"{needed_for} needs an optional part that is not installed", hint=install)


class ToolServerUnavailable(FabricError, code="tool_server_unavailable"):
    """A server that offers tools cannot be started or reached, may not be, or does not answer."""


class NodeNotFound(FabricError, code="node_not_found"):
    """No machine of the fleet has this id or name, or it has no such command."""


class NodeUnavailable(FabricError, code="node_unavailable"):
    """A machine of the fleet is offline, in conflict or revoked, or does not answer."""


class NodeBlocked(FabricError, code="node_blocked"):
    """The policy of a machine forbids a command; no approval helps."""


class ServerBusy(FabricError, code="server_busy"):
    """Too many runs wait already; nothing was created."""


class Unauthenticated(FabricError, code="unauthenticated"):
    """The request has no valid credential."""


class Forbidden(FabricError, code="forbidden"):
    """Who is asking may not do this."""


class TooManyRequests(FabricError, code="too_many_requests"):
    """Who is asking has asked too often, or has too much under way."""

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class AccountNotFound(FabricError, code="account_not_found"):
    """No user or key has this name."""


class NameTaken(FabricError, code="name_taken"):
    """Another user or key has this name."""


class LastAdmin(FabricError, code="last_admin"):
    """No user would be left who may manage users and keys."""


class RepeatMismatch(FabricError, code="idempotency_mismatch"):
    """A request has the key of an earlier one, but is another one."""


class RepeatNotKept(FabricError, code="idempotency_not_kept"):
    """A request has been carried out already, and its answer was not kept."""


class ServerStopping(FabricError, code="server_stopping"):
    """The server stops; the next one continues its runs."""


class Interrupted(FabricError, code="interrupted"):
    """A person or the system stopped us before there was anything to resume."""


class ModelError(FabricError, code="model_error"):
    """The model gave no usable answer."""

    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class ModelUnreachable(ModelError, code="model_unreachable"):
    """No server answers at the model's address."""

    retryable = True


class ModelBusy(ModelError, code="model_busy"):
    """The server said 429 or 5xx: trying again later may help."""

    retryable = True


class ModelRefused(ModelError, code="model_refused"):
    """The server said 4xx: trying the same again would not help."""


class ContextExceeded(ModelRefused, code="context_exceeded"):
    """The conversation no longer fits into the model's window."""


class ModelTimedOut(ModelError, code="model_timed_out"):
    """No answer within the time allowed."""

    retryable = True


class ModelForbidden(ModelError, code="offline"):
    """The model is on another machine, and the configuration says to stay on this one; nothing was sent."""


class ModelAnswerUnusable(ModelError, code="model_answer_unusable"):
    """The server answered with something that is not an answer."""

    retryable = True


class WeightsUnavailable(ModelError, code="weights_unavailable"):
    """The file of an embedded model is not here and cannot be had, or cannot be kept."""
