"""Dataclasses are built from plain data by the types of their fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

import pytest

from agent_fabric.domain.deserialize import reader_of
from agent_fabric.domain.events import RunCreated
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.event_versions import body_from
from agent_fabric.domain.runs.task import Budget, Parent, Profile


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True)
class Part:
    name: str

    @classmethod
    def from_plain(cls, plain: str) -> Self:
        return cls(plain.upper())


@dataclass(frozen=True, kw_only=True)
class Thing:
    size: Size = Size.SMALL
    words: tuple[str, ...] = ()
    parts: Mapping[str, Part] = field(default_factory=dict)
    inner: tuple["Thing", ...] = ()
    seconds: float | None = field(default=None, metadata={"key": "timeout"})
    either: str | tuple[str, ...] = ""
    anything: Any = "unset"


def test_values_get_the_types_of_their_fields() -> None:
    plain = {
        "size": "large",
        "words": ["a"],
        "parts": {"p": "x"},
        "inner": [{"words": "one"}],
        "timeout": 3,
        "either": ["b"],
        "of a newer version": 1,
    }
    thing = reader_of(Thing, of_file=True)(plain)
    assert thing == Thing(
        size=Size.LARGE,
        words=("a",),
        parts={"p": Part("X")},
        inner=(Thing(words=("one",)),),
        seconds=3.0,
        either=("b",),
    )
    assert isinstance(thing.seconds, float)


def test_nothing_in_a_file_means_the_default_unless_anything_is_allowed() -> None:
    plain = {"size": None, "words": None, "timeout": None, "anything": None}
    assert reader_of(Thing, of_file=True)(plain) == Thing(anything=None)


@pytest.mark.parametrize("plain", [{"size": "huge"}, {"words": 3}, {"inner": [3]}])
def test_what_does_not_fit_is_an_error(plain: Mapping[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        reader_of(Thing)(plain)


def test_tuples_within_parts_of_an_event_are_tuples_again() -> None:
    parent = {"run_id": "r", "lane": "l", "untrusted": ["web"]}
    created = RunCreated(
        prompt="p",
        specialist_id=None,
        model_key="m",
        network_allowed=False,
        profile=Profile.TASK,
        budget=Budget(max_steps=1),
        workspace="/w",
        sandbox="A",
        policy_version="1",
        fabric_version="1",
        parent=Parent(run_id=RunId("r"), lane=LaneId("l"), untrusted=("web",)),
    )
    plain = {name: getattr(created, name) for name in ("prompt", "specialist_id", "model_key", "network_allowed")}
    plain |= {"profile": "task", "budget": {"max_steps": 1}, "workspace": "/w", "sandbox": "A"}
    plain |= {"policy_version": "1", "fabric_version": "1", "parent": parent}
    assert body_from("run_created", 1, plain) == created
