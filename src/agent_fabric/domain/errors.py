"""The one family of errors.

FabricError                       anything we can explain to a person
├── ConfigError                   the configuration, an option or an environment variable is wrong
├── RecruitError                  no such pack, or none fits the task
│   └── PackBroken                the pack is there, but cannot be built or opened
├── DefinitionNotFound            no workflow or agent has this name
├── InvalidDefinition             the file of a workflow or agent is wrong
│   └── WorkflowInvalid           with each problem in its line; see `definitions.problems`
├── InvalidInputs                 what a workflow or agent was given does not fit what it takes
├── SecretNotFound                no secret has this name
├── RunNotFound                   no run has this id
├── RunFileNotFound               the run has no such file
├── RunFilesWithheld              the run's files cannot be handed out: not only its own, or gone
│   └── FolderLinked              a folder of the fabric folder, or a workspace, has become a link
├── RunHeld                       another living process drives this run
├── RunUndrivable                 the run is there, but this program or machine cannot continue it
├── RunKeyMissing                 the run is encrypted, and its key is not here
├── RunSettled                    the run has ended; nothing can be asked of it any more
├── RunUnsettled                  the run has not ended, and what is asked needs its result
├── SessionNotFound               no session has this id
├── SessionMoved                  more was said in a session than who writes has seen
├── MessageNotFound               the session has no such message
├── MessageSent                   the turn of a message has begun, so it cannot be changed any more
├── ScheduleNotFound              no schedule, sensor or subscription has this name
├── DeadLetterNotFound            no dead letter has this id
├── DeadLetterSettled             it was replayed or dropped before
├── PairingNotFound               no such pairing code is waiting
├── ChannelNotFound               no channel, person or delivery is this one
├── MemoryNotFound                no fact or document has this id
├── FactRefused                   a fact is not remembered: too long, a duplicate, a secret, without a source
├── FactSettled                   the fact was reviewed before, or is no longer in use
├── DocumentUnreadable            there is no text in a document, or it cannot be taken out
├── EvalNotFound                  no evaluation has this id or name
├── EvalHeld                      another living process works on this evaluation
├── FolderHeld                    another run works in this project folder
├── DriverConflict                another process appended to a run that we drive
├── StoreUnavailable              the store cannot be read or written
│   └── StoreFull                 because the disk is full
├── MissingExtra                  an optional part is not installed
├── ToolServerUnavailable         a server that offers tools cannot be used
├── ServerBusy                    too many runs wait already
├── NodeNotFound                  no machine of the fleet has this id or name
├── NodeUnavailable               a machine is offline, in conflict or revoked
├── NodeBlocked                   the policy of a machine forbids a command
├── ServerUnreachable, …          what happens between a client and a server; see `client.errors`
├── Unauthenticated               the request has no valid credential
├── Forbidden                     who is asking may not do this
├── TooManyRequests               who is asking has asked too often
├── RepeatMismatch                a request has the key of an earlier, different one
├── RepeatNotKept                 a request was carried out already, and its answer not kept
├── AccountNotFound               no user or key has this name
├── NameTaken                     another user or key has this name
├── LastAdmin                     no user would be left who may manage users and keys
├── ServerStopping                the server ends; its successor continues
├── Interrupted                   a person or the system stopped us before there was anything to resume
└── ModelError                    the model gave no usable answer
    ├── ModelUnreachable          no server answers there
    ├── ModelBusy                 429 or 5xx: try again later
    ├── ModelRefused              4xx: trying again would not help
    │   └── ContextExceeded       the conversation no longer fits into the model's window
    ├── ModelTimedOut             no answer in time
    ├── ModelForbidden            it is on another machine, and `offline` keeps us on this one
    ├── ModelAnswerUnusable       an answer that is not one: cut off, not JSON, of the wrong shape
    └── WeightsUnavailable        the model's file is not here and cannot be had

Each class has a stable `code` for programs; each instance may carry a `hint` for people.
Interfaces turn codes into exit codes and statuses; nothing else does. A tool that fails is a
result for the model, not an exception; a tool that reaches out of its box raises PermissionError.
"""

from typing import ClassVar


class FabricError(Exception):
    """Something went wrong that we can explain."""

    code: ClassVar[str] = "fabric_error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class ConfigError(FabricError):
    """The configuration, an option or an environment variable is wrong."""

    code = "config_invalid"


class RecruitError(FabricError):
    """No such pack, or none fits the task."""

    code = "pack_unknown"


class PackBroken(RecruitError):
    """The pack is there, but cannot be built or opened."""

    code = "pack_broken"


class DefinitionNotFound(FabricError):
    """No workflow or agent has this name."""

    code = "definition_not_found"


class InvalidDefinition(FabricError):
    """The file of a workflow or agent is wrong; nothing was run."""

    code = "definition_invalid"


class InvalidInputs(FabricError):
    """What a workflow or agent was given does not fit what it takes; nothing was run."""

    code = "inputs_invalid"


class SecretNotFound(FabricError):
    """No secret has this name."""

    code = "secret_not_found"


class RunNotFound(FabricError):
    """No run has this id."""

    code = "run_not_found"


class RunFileNotFound(FabricError):
    """The run has no such file."""

    code = "run_file_not_found"


class RunFilesWithheld(FabricError):
    """The run's files cannot be handed out: they lie in a person's project, or are gone."""

    code = "run_files_withheld"


class FolderLinked(RunFilesWithheld):
    """A folder of the fabric folder, or the workspace of a run, has become a symbolic link."""

    code = "folder_linked"


class RunHeld(FabricError):
    """Another living process drives this run."""

    code = "run_held"


class WorkerNotFound(FabricError):
    """No living process is called so."""

    code = "worker_not_found"


class RunUndrivable(FabricError):
    """The run exists, but this program or machine cannot continue it."""

    code = "run_undrivable"

    def __init__(self, message: str, *, hint: str = "", lacks: str = "") -> None:
        super().__init__(message, hint=hint)
        self.lacks = lacks
        """What is missing here; the same words for all runs that need the same."""


class RunKeyMissing(FabricError):
    """The run is encrypted, and its key is not here."""

    code = "run_key_missing"


class RunSettled(FabricError):
    """The run has ended, so that what is asked of it cannot be done any more."""

    code = "run_settled"


class RunUnsettled(FabricError):
    """The run has not ended, and what is asked needs its result."""

    code = "run_unsettled"


class ApprovalNotFound(FabricError):
    """There is no such question."""

    code = "approval_not_found"


class ApprovalSettled(FabricError):
    """The question has been answered, or can no longer be."""

    code = "approval_settled"


class ApprovalRefused(FabricError):
    """An answer that does not fit the question, or that this caller may not give."""

    code = "approval_refused"


class SessionNotFound(FabricError):
    """No session has this id, or none that who asks may see."""

    code = "session_not_found"


class SessionMoved(FabricError):
    """More was said in a session than who writes has seen."""

    code = "session_moved"


class MessageNotFound(FabricError):
    """A session has no message with this id."""

    code = "message_not_found"


class MessageSent(FabricError):
    """The turn of a message has begun, so it cannot be changed any more."""

    code = "message_sent"


class ScheduleNotFound(FabricError):
    """No schedule, sensor or subscription has this name."""

    code = "schedule_not_found"


class DeadLetterNotFound(FabricError):
    """No dead letter has this id."""

    code = "dead_letter_not_found"


class DeadLetterSettled(FabricError):
    """The dead letter was replayed or dropped before."""

    code = "dead_letter_settled"


class PairingNotFound(FabricError):
    """No such pairing code is waiting; a code lasts for an hour and is used once."""

    code = "pairing_not_found"


class ChannelNotFound(FabricError):
    """No channel of this name is configured, or it has no such person or delivery."""

    code = "channel_not_found"


class MemoryNotFound(FabricError):
    """No fact or document has this id, or more than one begins so."""

    code = "memory_not_found"


class FactRefused(FabricError):
    """A fact is not remembered; nothing was written."""

    code = "fact_refused"


class FactSettled(FabricError):
    """The fact was reviewed before, or is no longer in use."""

    code = "fact_settled"


class DocumentUnreadable(FabricError):
    """There is no text in a document, or it cannot be taken out."""

    code = "document_unreadable"


class EvalNotFound(FabricError):
    """No evaluation has this id or name, or more than one begins so."""

    code = "eval_not_found"


class EvalHeld(FabricError):
    """A living process works on this evaluation."""

    code = "eval_held"


class FolderHeld(FabricError):
    """Another living run works in this project folder."""

    code, holder = "folder_held", ""


class DriverConflict(FabricError):
    """Another process appended to a run that we drive; the only safe answer is to stop."""

    code = "driver_conflict"


class LeaseLost(DriverConflict):
    """This process was away for too long: others may drive its runs."""

    code = "lease_lost"


class LogWentBack(DriverConflict):
    """The database has lost events that it had confirmed."""

    code = "log_went_back"


class StoreUnavailable(FabricError):
    """The store cannot be read or written."""

    code = "store_unavailable"


class StoreFull(StoreUnavailable):
    """The disk is full; nothing that was recorded is lost."""

    code = "disk_full"


class MissingExtra(FabricError):
    """An optional part is needed but not installed."""

    code = "extra_missing"

    def __init__(self, extra: str, *, needed_for: str) -> None:
        install = f'Install it with: pip install "agent-fabric[{extra}]"'
        super().__init__(f"{needed_for} needs an optional part that is not installed", hint=install)


class ToolServerUnavailable(FabricError):
    """A server that offers tools cannot be started or reached, may not be, or does not answer."""

    code = "tool_server_unavailable"


class NodeNotFound(FabricError):
    """No machine of the fleet has this id or name, or it has no such command."""

    code = "node_not_found"


class NodeUnavailable(FabricError):
    """A machine of the fleet is offline, in conflict or revoked, or does not answer."""

    code = "node_unavailable"


class NodeBlocked(FabricError):
    """The policy of a machine forbids a command; no approval helps."""

    code = "node_blocked"


class ServerBusy(FabricError):
    """Too many runs wait already; nothing was created."""

    code = "server_busy"


class Unauthenticated(FabricError):
    """The request has no valid credential."""

    code = "unauthenticated"


class Forbidden(FabricError):
    """Who is asking may not do this."""

    code = "forbidden"


class TooManyRequests(FabricError):
    """Who is asking has asked too often, or has too much under way."""

    code = "too_many_requests"

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class AccountNotFound(FabricError):
    """No user or key has this name."""

    code = "account_not_found"


class NameTaken(FabricError):
    """Another user or key has this name."""

    code = "name_taken"


class LastAdmin(FabricError):
    """No user would be left who may manage users and keys."""

    code = "last_admin"


class RepeatMismatch(FabricError):
    """A request has the key of an earlier one, but is another one."""

    code = "idempotency_mismatch"


class RepeatNotKept(FabricError):
    """A request has been carried out already, and its answer was not kept."""

    code = "idempotency_not_kept"


class ServerStopping(FabricError):
    """The server stops; the next one continues its runs."""

    code = "server_stopping"


class Interrupted(FabricError):
    """A person or the system stopped us before there was anything to resume."""

    code = "interrupted"


class ModelError(FabricError):
    """The model gave no usable answer."""

    code = "model_error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class ModelUnreachable(ModelError):
    """No server answers at the model's address."""

    code = "model_unreachable"
    retryable = True


class ModelBusy(ModelError):
    """The server said 429 or 5xx: trying again later may help."""

    code = "model_busy"
    retryable = True


class ModelRefused(ModelError):
    """The server said 4xx: trying the same again would not help."""

    code = "model_refused"


class ContextExceeded(ModelRefused):
    """The conversation no longer fits into the model's window."""

    code = "context_exceeded"


class ModelTimedOut(ModelError):
    """No answer within the time allowed."""

    code = "model_timed_out"
    retryable = True


class ModelForbidden(ModelError):
    """The model is on another machine, and the configuration says to stay on this one; nothing was sent."""

    code = "offline"


class ModelAnswerUnusable(ModelError):
    """The server answered with something that is not an answer."""

    code = "model_answer_unusable"
    retryable = True


class WeightsUnavailable(ModelError):
    """The file of an embedded model is not here and cannot be had, or cannot be kept."""

    code = "weights_unavailable"
