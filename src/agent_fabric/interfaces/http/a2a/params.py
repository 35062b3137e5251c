"""The shapes of what is asked. What is not known is left aside."""

import json
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from agent_fabric.config.constants import MAX_PROMPT_CHARS
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.interfaces.http.a2a.error_shape import CONTENT_TYPE_NOT_SUPPORTED, INVALID_PARAMS, RpcError
from agent_fabric.interfaces.http.schemas import SAYS_SOMETHING

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
                INVALID_PARAMS, "metadata: `skill` and `pack` must be names", hint="The agent card has them."
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
            raise RpcError(INVALID_PARAMS, "metadata: `visibility` must be `private` or `team`")
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
        raise RpcError(CONTENT_TYPE_NOT_SUPPORTED, "Only text and data are supported, not files")
    text = message.text
    if not re.search(SAYS_SOMETHING, text):
        raise RpcError(INVALID_PARAMS, "The message says nothing", hint='Give parts such as {"text": "…"}.')
    if len(text) > MAX_PROMPT_CHARS:
        raise RpcError(
            INVALID_PARAMS,
            f"A message may have {MAX_PROMPT_CHARS:,} characters",
            hint="Put long material into a file.",
        )
    return text


def wrong_params(problem: ValidationError) -> RpcError:
    """Return what is wrong with params, field by field."""
    errors = problem.errors(include_url=False, include_context=False, include_input=False)
    told = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'params'}: {each['msg']}" for each in errors[:3])
    return RpcError(INVALID_PARAMS, told)


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)
