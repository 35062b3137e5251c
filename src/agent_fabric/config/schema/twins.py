"""Pydantic models of the same declarations: they decide on settings that are not certainly right, and explain them."""

from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, TypeVar, Union, get_args, get_origin

import pydantic
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from agent_fabric.config.schema.declared import Finding, Limits, Refused, Settings, checks_of


class _Twin(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        defer_build=True,  # only the whole is ever built: each section by itself would take as long again
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,  # a refused value may be a key that was pasted by mistake
    )
    group: ClassVar[type[Settings]]


_S = TypeVar("_S", bound=Settings)
_MADE: Final[dict[type[Settings], type[_Twin]]] = {}


def read_with_pydantic(cls: type[_S], values: Any) -> _S:
    """Return settings as pydantic reads them.

    Raises:
        ValidationError: something is wrong.
    """
    return _settings(cls, twin(cls).model_validate(_with_twins(values)))


def twin(cls: type[Settings]) -> type[_Twin]:
    """Return the pydantic model of a group of settings."""
    if cls in _MADE:
        return _MADE[cls]
    fields: Any = {name: (_annotation(field.declared), _mark(field.limits)) for name, field in cls.model_fields.items()}
    check: Any = pydantic.model_validator(mode="after")(_check_of(cls))
    made = pydantic.create_model(cls.__name__, __base__=_Twin, __validators__={"checks_of_the_group": check}, **fields)
    made.group = cls
    _MADE[cls] = made
    return made


def twin_of(settings: Settings) -> _Twin:
    """Return settings as a model."""
    return twin(type(settings)).model_construct(**{name: _with_twins(value) for name, value in settings})


def _check_of(cls: type[Settings]) -> Callable[[Any], Any]:
    def check(model: Any) -> Any:
        settings = _settings(cls, model)
        try:
            for each in checks_of(cls):
                each(settings)
        except Refused as refused:
            raise ValidationError.from_exception_data(
                cls.__name__, [_line(finding) for finding in refused.findings]
            ) from None
        return model

    return check


def _line(found: Finding) -> InitErrorDetails:
    message: Any = found.message
    kind: Any = found.kind
    return InitErrorDetails(type=PydanticCustomError(kind, message), loc=found.path, input=found.value)


def _settings(cls: type[_S], model: _Twin) -> _S:
    made = cls.model_construct({name: _without_twins(value) for name, value in vars(model).items()})
    vars(made)["model_fields_set"] = frozenset(model.model_fields_set)
    return made


def _without_twins(value: Any) -> Any:
    match value:
        case _Twin():
            return _settings(value.group, value)
        case Mapping():
            return {key: _without_twins(item) for key, item in value.items()}
        case tuple():
            return tuple(map(_without_twins, value))
        case _:
            return value


def _with_twins(value: Any) -> Any:
    match value:
        case Settings():
            return twin_of(value)
        case dict():
            return {key: _with_twins(item) for key, item in value.items()}
        case tuple() | list():
            return type(value)(map(_with_twins, value))
        case _:
            return value


def _annotation(kind: Any) -> Any:
    """Return a type with pydantic's models and marks in place of ours."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Settings):
        return twin(kind)
    if origin is Annotated:
        return Annotated[(_annotation(arguments[0]), *map(_mark, arguments[1:]))]
    if origin in (Union, UnionType):
        return Union[tuple(map(_annotation, arguments))]  # noqa: UP007 - of as many as there are
    if origin is tuple:
        return tuple.__class_getitem__((_annotation(arguments[0]), ...))
    if origin is Mapping:
        return Mapping[*map(_annotation, arguments)]  # type: ignore[misc]  # made here
    return kind


def _mark(mark: Any) -> Any:
    given = {name: value for name, value in mark._asdict().items() if value != type(mark)._field_defaults.get(name)}
    return getattr(pydantic, "Field" if isinstance(mark, Limits) else type(mark).__name__)(**given)
