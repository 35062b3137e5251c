"""What callers ask: calls, their parameters, and answers to tasks that wait. Pure."""

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import from_json

from agent_fabric.config.constants import MAX_PROMPT_CHARS
from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.interfaces.http.a2a.error_shape import Code, RpcError, RpcId
from agent_fabric.interfaces.http.schemas import SAYS_SOMETHING

VERSION = "1.0"
"""Of the protocol."""
VERSION_HEADER = "a2a-version"
MAX_ID_CHARS = 1_000
_LARGEST_ID = 2**53


class Method(StrEnum):
    """What can be asked."""

    SEND = "SendMessage"
    STREAM = "SendStreamingMessage"
    GET = "GetTask"
    LIST = "ListTasks"
    CANCEL = "CancelTask"
    SUBSCRIBE = "SubscribeToTask"
    PUSH = "push notifications"
    """All that has to do with them; we have none."""
    CARD = "GetExtendedAgentCard"


METHODS: Mapping[str, Method] = {
    **{method.value: method for method in Method if method is not Method.PUSH},
    "CreateTaskPushNotificationConfig": Method.PUSH,
    "GetTaskPushNotificationConfig": Method.PUSH,
    "ListTaskPushNotificationConfigs": Method.PUSH,
    "DeleteTaskPushNotificationConfig": Method.PUSH,
}


class Call(NamedTuple):
    """What is asked."""

    id: RpcId
    method: Method
    params: Mapping[str, Any]


def body_in(data: bytes) -> Any:
    """Return a body as a value.

    Raises:
        RpcError: it is no JSON.
    """
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError as problem:
        raise RpcError(Code.PARSE_ERROR, f"The body is no JSON: {problem}") from None


def id_in(body: Any) -> RpcId:
    """Return what an answer to a body repeats; None if it has nothing that can be."""
    found = body.get("id") if isinstance(body, dict) else None
    if isinstance(found, str):
        return found if len(found) <= MAX_ID_CHARS else None
    return found if isinstance(found, int) and not isinstance(found, bool) and abs(found) <= _LARGEST_ID else None


def call_in(body: Any, version: str = "") -> Call:
    """Return the call that a body is; `version` is what the caller says to speak, if anything.

    Raises:
        RpcError: it is none, or there is no such method.
    """
    if isinstance(body, list):
        raise RpcError(Code.INVALID_REQUEST, "Several calls in one request are not supported", hint="Send each alone.")
    if not isinstance(body, dict) or body.get("jsonrpc") != "2.0":
        hint = 'It is one object: {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {…}}'
        raise RpcError(Code.INVALID_REQUEST, "This is no call in JSON-RPC 2.0", hint=hint)
    rpc_id, name, params = id_in(body), body.get("method"), body.get("params", {})
    if rpc_id is None:
        hint = "Choose a text or a whole number: every call is answered here."
        raise RpcError(Code.INVALID_REQUEST, "The id of the call cannot be used, or is missing", hint=hint)
    if not isinstance(name, str):
        raise RpcError(Code.INVALID_REQUEST, "The method of the call is missing, or no text")
    if version.strip() and version.strip().partition(".")[0] != "1":
        shown = version.strip()[:20]
        raise RpcError(Code.VERSION_NOT_SUPPORTED, f"Version {shown!r} of A2A is not supported", hint=f"{VERSION} is.")
    if name not in METHODS:
        raise RpcError(
            Code.METHOD_NOT_FOUND,
            f"There is no method {name[:100]!r}",
            hint=f"A2A {VERSION} has: {', '.join(METHODS)}.",
        )
    if not isinstance(params, dict):
        raise RpcError(Code.INVALID_PARAMS, "params must be an object")
    return Call(rpc_id, METHODS[name], params)


Name = Annotated[str, StringConstraints(max_length=200)]
PAGE, MAX_TASKS = 50, 100
_EXACT = 2**53
"""Beyond this, a float is no exact number any more."""


def whole_numbers(value: Any) -> Any:
    """Take 3.0 for 3, as JSON does: the official clients know no other numbers than such."""
    match value:
        case float() if value.is_integer() and abs(value) <= _EXACT:
            return int(value)
        case dict():
            return {name: whole_numbers(each) for name, each in value.items()}
        case list():
            return [whole_numbers(each) for each in value]
        case _:
            return value


class _Params(BaseModel):
    model_config = ConfigDict(
        extra="ignore",
        strict=True,
        hide_input_in_errors=True,
        defer_build=True,  # most servers are never called so, and should not start later for it
    )


class Part(_Params):
    """A piece of a message."""

    text: str | None = None
    data: Annotated[Any, BeforeValidator(whole_numbers)] = None
    raw: Any = None
    url: Any = None


class Message(_Params):
    """What a caller says."""

    role: Literal["ROLE_USER", "ROLE_AGENT", "ROLE_UNSPECIFIED"] = "ROLE_USER"
    parts: Annotated[list[Part], Field(min_length=1, max_length=1_000)]
    context_id: Annotated[Name, Field(alias="contextId")] = ""
    task_id: Annotated[Name, Field(alias="taskId")] = ""
    metadata: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """All that it says; data as JSON."""
        said = (each.text if each.text is not None else _json(each.data) for each in self.parts)
        return "\n".join(said).strip()

    @property
    def data(self) -> dict[str, Any] | None:
        """The object that it gives, if it gives one."""
        given = [each.data for each in self.parts if isinstance(each.data, dict)]
        return given[0] if len(given) == 1 else None


class Configuration(_Params):
    """How a message is to be answered."""

    return_immediately: Annotated[bool | None, Field(alias="returnImmediately")] = None
    history_length: Annotated[int | None, Field(alias="historyLength", ge=0)] = None
    push: Annotated[Any, Field(alias="taskPushNotificationConfig")] = None

    @property
    def waits(self) -> bool:
        """Whether the caller waits for the result."""
        return not self.return_immediately


class Sending(_Params):
    """A message to be sent."""

    message: Message
    configuration: Configuration | None = None
    metadata: dict[str, Any] | None = None

    @property
    def options(self) -> Configuration:
        """How it is to be answered."""
        return self.configuration or Configuration()

    @property
    def skill(self) -> str:
        """The skill that is wished for; empty: any.

        Raises:
            RpcError: it is no name.
        """
        wishes = self._wishes
        skill, pack = wishes.get("skill"), wishes.get("pack")
        wish = skill if skill is not None else f"pack/{pack}" if isinstance(pack, str) and pack else pack
        if wish is not None and (not isinstance(wish, str) or len(wish) > 300):
            raise RpcError(
                Code.INVALID_PARAMS, "metadata: `skill` and `pack` must be names", hint="The agent card has them."
            )
        return wish or ""

    @property
    def visibility(self) -> str | None:
        """Who is to see the run beside its owner; None: not said.

        Raises:
            RpcError: there is no such visibility.
        """
        wish = self._wishes.get("visibility")
        if wish is not None and wish not in list(Visibility):
            raise RpcError(Code.INVALID_PARAMS, "metadata: `visibility` must be `private` or `team`")
        return None if wish is None else str(wish)

    @property
    def _wishes(self) -> dict[str, Any]:
        return {**(self.metadata or {}), **(self.message.metadata or {})}


class OneTask(_Params):
    """The task that a caller asks about."""

    id: Annotated[Name, StringConstraints(min_length=1)]
    history_length: Annotated[int | None, Field(alias="historyLength", ge=0)] = None


class Listing(_Params):
    """Which tasks to list."""

    context_id: Annotated[Name, Field(alias="contextId")] = ""
    status: Name = ""
    page_size: Annotated[int, Field(alias="pageSize", ge=0, le=MAX_TASKS)] = PAGE
    page_token: Annotated[str, Field(alias="pageToken", pattern=r"^[0-9]{0,18}$")] = ""
    history_length: Annotated[int | None, Field(alias="historyLength", ge=0)] = None
    include_artifacts: Annotated[bool, Field(alias="includeArtifacts")] = False
    after: Annotated[str, Field(alias="statusTimestampAfter", max_length=100)] = ""


def checked_text(message: Message) -> str:
    """Return the task in a message.

    Raises:
        RpcError: it says nothing, too much, or something else than text.
    """
    if any(each.raw is not None or each.url is not None for each in message.parts):
        raise RpcError(Code.CONTENT_TYPE_NOT_SUPPORTED, "Only text and data are supported, not files")
    text = message.text
    if not re.search(SAYS_SOMETHING, text):
        raise RpcError(Code.INVALID_PARAMS, "The message says nothing", hint='Give parts such as {"text": "…"}.')
    if len(text) > MAX_PROMPT_CHARS:
        raise RpcError(
            Code.INVALID_PARAMS,
            f"A message may have {MAX_PROMPT_CHARS:,} characters",
            hint="Put long material into a file.",
        )
    return text


def wrong_params(problem: ValidationError) -> RpcError:
    """Return what is wrong with params, field by field."""
    errors = problem.errors(include_url=False, include_context=False, include_input=False)
    told = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'params'}: {each['msg']}" for each in errors[:3])
    return RpcError(Code.INVALID_PARAMS, told)


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


GO_ON = frozenset({"resume", "continue", "go on"})
HOW = (
    "Send a message to this task that says approve or deny, or give data: "
    '{"approval": ID, "decision": "approve", "binding": HASH, "args": {…}}.'
)
_WORDS: Mapping[str, Decision] = {
    "approve": Decision.APPROVE,
    "approved": Decision.APPROVE,
    "yes": Decision.APPROVE,
    "deny": Decision.DENY,
    "denied": Decision.DENY,
    "no": Decision.DENY,
    "done": Decision.DONE,
}
"""Nothing else counts: `yes, but not to main` is no agreement."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to what a run asks."""

    decision: Decision
    reason: str = ""
    args: Mapping[str, Any] | None = None
    approval: str = ""
    """Which question is meant; empty: the only one."""
    binding: str = ""
    """Hash of the call that was shown; empty: it is not said."""


def reply_in(text: str, data: Mapping[str, Any] | None) -> Reply:
    """Return the answer that a message is.

    Raises:
        RpcError: it is not clear what is meant.
    """
    if data is None:
        return _read_words(text)
    if "decision" not in data:
        return Reply(Decision.APPROVE, args=data)  # a form, filled in
    decision, reason = data["decision"], data.get("reason", "")
    args, approval, binding = data.get("args"), data.get("approval", ""), data.get("binding", "")
    known = isinstance(decision, str) and decision in {"approve", "deny", "done"}
    texts = all(isinstance(each, str) for each in (reason, approval, binding))
    fits = texts and (args is None or isinstance(args, dict))
    if not known or not fits:
        raise RpcError(Code.INVALID_PARAMS, "The answer is not understood", hint=HOW)
    return Reply(Decision(decision), reason, args, approval, binding)


def says_go_on(text: str) -> bool:
    """Tell whether a text says that an interrupted run is to go on."""
    return _plain(text) in GO_ON


def _read_words(text: str) -> Reply:
    word, colon, reason = text.partition(":")
    decision = _WORDS.get(_plain(word))
    if decision is None or (colon and decision is not Decision.DENY):
        raise RpcError(Code.INVALID_PARAMS, "It is not clear whether this is yes or no", hint=HOW)
    return Reply(decision, reason.strip())


def _plain(text: str) -> str:
    return " ".join(text.split()).strip(".! ").lower()
