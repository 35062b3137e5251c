"""Settings are read without pydantic where they are right; what comes out is what pydantic makes of them."""

import subprocess
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from agent_fabric.config.defaults import default_settings
from agent_fabric.config.schema.declared import Settings
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.policy import PolicyFile
from agent_fabric.config.schema.twins import read_with_pydantic, twin
from effort import effort

_PLACES = (
    "https://a.example/v1",
    "http://[",
    "env:KEY",
    "file:key",
    "nats://a:4222",
    "redis://a/0",
    "postgresql://a/b",
)
_NAMES = (
    "fast",
    "quality",
    "a-b",
    "example.org",
    "10.0.0.0/8",
    "runs:read",
    "GET /runs",
    "module:function",
    "10/minute",
)
_PATHS = ("/a.gguf", "~/a.gguf", "a.gguf", "s3://bucket/x", "folder:/x", "")
_ODD = ("\n", "ü", "A\n", "UTC", "X-Header", "b\0", "/x y", "llama-server", "ab\n")
TEXTS = st.sampled_from(_PLACES + _NAMES + _PATHS + _ODD) | st.text(max_size=4)
NUMBERS = st.sampled_from([0, 1, -1, 2, 60, 80, 512, 4_096, 64_000, 10**20, 2**60 + 1]) | st.integers(-3, 100_000)
FRACTIONS = st.sampled_from([0.0, -0.0, 0.5, 1.0, 1.5, 90.0, 1e300, float("inf"), float("nan")]) | NUMBERS
ANYTHING = (
    st.none()
    | st.booleans()
    | FRACTIONS
    | TEXTS
    | st.lists(TEXTS, max_size=2)
    | st.dictionaries(TEXTS, TEXTS, max_size=1)
)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Make values that a setting of a type may well take, and now and then others."""
    return st.one_of(*[fitting(kind)] * 11, ANYTHING)


def fitting(kind: Any) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return fitting(arguments[0])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(fitting, arguments))
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=3)
    if origin is Mapping:
        return st.dictionaries(TEXTS.filter(bool), values(arguments[1]), max_size=2)
    if isinstance(kind, type) and issubclass(kind, Settings):
        return group(kind)
    by_type = {str: TEXTS, Path: TEXTS, int: NUMBERS, float: FRACTIONS, bool: st.booleans(), type(None): st.none()}
    return by_type[kind]


def group(kind: type[Settings]) -> st.SearchStrategy[dict[str, Any]]:
    fields = {name: values(field.declared) for name, field in kind.model_fields.items()}
    required = {name: fields[name] for name, field in kind.model_fields.items() if field.is_required()}
    some = st.lists(st.sampled_from(sorted(fields)), max_size=3, unique=True)
    return st.tuples(st.fixed_dictionaries(required), some.flatmap(lambda names: chosen(fields, names))).map(
        lambda both: both[0] | both[1]
    )


def chosen(fields: Mapping[str, st.SearchStrategy[Any]], names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: fields[name] for name in names})


def attempt(read: Any, value: Any) -> Settings | list[Any]:
    try:
        settings: Settings = read(value)
    except ValidationError as error:
        return [(each["type"], each["loc"], each["msg"]) for each in error.errors(include_url=False)]
    return settings


def groups(kind: type[Settings] = FabricConfig) -> set[type[Settings]]:
    found = {kind}
    for field in kind.model_fields.values():
        for inner in _groups_in(field.declared):
            found |= groups(inner)
    return found


def _groups_in(kind: Any) -> list[type[Settings]]:
    if isinstance(kind, type) and issubclass(kind, Settings):
        return [kind]
    return [found for inner in get_args(kind) for found in _groups_in(inner)]


GROUPS = sorted({*groups(), PolicyFile} - {FabricConfig}, key=lambda kind: kind.__name__)


@settings(max_examples=effort(50, 1_000), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), kind=st.sampled_from(GROUPS))
def test_a_group_means_the_same_read_either_way(data: st.DataObject, kind: type[Settings]) -> None:
    given_values = data.draw(group(kind))
    same_either_way(kind, given_values)


@settings(max_examples=effort(20, 300), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), name=st.sampled_from(sorted(FabricConfig.model_fields)))
def test_the_whole_means_the_same_read_either_way(data: st.DataObject, name: str) -> None:
    changed = data.draw(values(FabricConfig.model_fields[name].declared))
    same_either_way(FabricConfig, {**default_settings(), name: changed})


def same_either_way(kind: type[Settings], given_values: Any) -> None:
    lightly, slowly = attempt(kind.model_validate, given_values), attempt(read_in_full(kind), given_values)
    event("right" if isinstance(slowly, Settings) else "wrong")
    assert lightly == slowly
    if isinstance(lightly, Settings) and isinstance(slowly, Settings):
        model = twin(kind).model_validate(given_values)
        assert repr(lightly) == repr(slowly) == repr(model)
        assert lightly.model_fields_set == slowly.model_fields_set == model.model_fields_set
        assert lightly.model_dump() == model.model_dump()
        assert lightly.model_dump(mode="json") == model.model_dump(mode="json")
        assert kind.model_validate(lightly.model_dump(mode="json")) == lightly


def read_in_full(kind: type[Settings]) -> Any:
    return lambda value: read_with_pydantic(kind, value)


def test_settings_are_read_without_pydantic_where_they_are_right() -> None:
    program = (
        "import sys; from agent_fabric.config.loader import read_config;"
        "read_config({'FABRIC_BUDGET__MAX_STEPS': '7'}, overrides={'models': {'a': {'base_url': 'http://a/v1'}}});"
        "sys.exit('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


def test_settings_that_were_read_are_taken_as_they_are() -> None:
    config = FabricConfig.model_validate(default_settings())
    again = FabricConfig(models=config.models, specialists=config.specialists, budget=config.budget)
    assert again == config
    assert hash(config.budget) == hash(again.budget)
    with pytest.raises(ValidationError, match="max_steps"):
        FabricConfig(models=config.models, specialists=config.specialists, budget={"max_steps": 0})  # type: ignore[arg-type]
