"""The body of a request, checked."""

from typing import TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

Body = TypeVar("Body", bound=BaseModel)


async def body_of(request: Request, model: type[Body], *, absent: Body | None = None) -> Body:
    """Return the body of a request; `absent` stands for one that is empty.

    FastAPI's own way takes twice as long, and answers 400 to what is no UTF-8.

    Raises:
        RequestValidationError: something is wrong with it.
    """
    data = await request.body()
    if absent is not None and not data:
        return absent
    try:
        return model.model_validate_json(data)
    except ValidationError as problem:
        errors = problem.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError([{**error, "loc": ("body", *error["loc"])} for error in errors]) from None
