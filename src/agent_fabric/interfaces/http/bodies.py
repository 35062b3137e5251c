"""The body of a request, checked."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from starlette.types import Message, Receive

Body = TypeVar("Body", bound=BaseModel)
WHOLE: Final = BeforeValidator(
    lambda number: int(number) if isinstance(number, float) and number.is_integer() else number
)
"""Takes 3.0 for 3, as JSON does."""
MAX_PROBLEMS = 100
"""Of a body with more, only their number is told: to name each of a hundred thousand would hold up all others."""


class RequestBody(BaseModel):
    """A JSON object with no other fields than those listed, each of exactly its type."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True, hide_input_in_errors=True)

    def __init_subclass__(cls, *, example: Mapping[str, Any] | None = None, **config: Any) -> None:
        """Take what pydantic takes, and an example for the API's description."""
        super().__init_subclass__(**config)
        if example is not None:
            cls.model_config["json_schema_extra"] = {"examples": [dict(example)]}


class LenientBody(RequestBody, strict=False):
    """The same, whose values may be of a type that stands for theirs, such as text for a choice."""


async def read_body(request: Request, model: type[Body], *, required: bool = True) -> Body:
    """Return the body of a request; an empty one is an empty object, unless it is required.

    FastAPI's own way takes twice as long, and answers 400 to what is no UTF-8.

    Raises:
        RequestValidationError: something is wrong with it.
    """
    data = await request.body()
    try:
        return model.model_validate_json(data if data or required else b"{}")
    except ValidationError as problem:
        raise describe_problems(problem) from None


def describe_problems(problem: ValidationError) -> RequestValidationError:
    """Return what is wrong with a body as the answer tells it."""
    count = problem.error_count()
    if count > MAX_PROBLEMS:
        return RequestValidationError([{"type": "too_many_problems", "loc": ("body",), "msg": f"{count:,} problems"}])
    errors = problem.errors(include_url=False, include_context=False, include_input=False)
    return RequestValidationError([{**error, "loc": ("body", *error["loc"])} for error in errors])


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Let a body be received that has been read already."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again
