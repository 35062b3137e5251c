"""The dataclass whose methods are compiled late behaves like the one of the standard library."""

import ast
import copy
import dataclasses
import inspect
import pickle
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

import agent_fabric
from agent_fabric.domain import dataclass as late

Decorator = Callable[..., Any]
SOURCE = Path(agent_fabric.__file__).parent
BOTH = pytest.mark.parametrize("dataclass", [dataclasses.dataclass, late.dataclass], ids=["standard", "late"])


@late.dataclass(frozen=True, slots=True)
class Point:
    """At the top of a module, so that it can be pickled."""

    x: int
    y: list[int] = dataclasses.field(default_factory=list)


def made_with(dataclass: Decorator, **options: bool) -> Any:
    @dataclass(**options)
    class Step:
        """A step."""

        kind: ClassVar[str] = "step"
        name: str
        secret: str = dataclasses.field(default="s", repr=False)
        cost: float = dataclasses.field(default=1.0, compare=False)
        tags: list[str] = dataclasses.field(default_factory=list, kw_only=True)
        size: int = dataclasses.field(default=3, init=False, repr=False)
        notes: list[str] = dataclasses.field(default_factory=list, init=False, repr=False)

    return Step


@BOTH
@pytest.mark.parametrize("slots", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_instances_behave_alike(dataclass: Decorator, frozen: bool, slots: bool) -> None:
    step = made_with(dataclass, frozen=frozen, slots=slots)
    one = step("a", tags=["t"])
    assert repr(one) == "made_with.<locals>.Step(name='a', cost=1.0, tags=['t'])"
    assert one == step("a", "s", 2.0, tags=["t"])
    assert one != step("b", tags=["t"])
    assert one != "a"
    assert dataclasses.replace(one, name="b") == step("b", tags=["t"])
    assert dataclasses.asdict(one) == {
        "name": "a",
        "secret": "s",
        "cost": 1.0,
        "tags": ["t"],
        "size": 3,
        "notes": [],
    }
    assert copy.deepcopy(one) == one
    assert step("x").tags is not step("x").tags
    assert (step.__match_args__, step.kind) == (("name", "secret", "cost"), "step")
    assert hasattr(one, "__dict__") is not slots
    assert step.__dataclass_params__.frozen is frozen


@BOTH
def test_wrong_arguments_are_refused_in_the_same_words(dataclass: Decorator) -> None:
    step = made_with(dataclass)
    with pytest.raises(TypeError, match=r"Step\.__init__\(\) missing 1 required positional argument: 'name'"):
        step()
    with pytest.raises(TypeError, match=r"Step\.__init__\(\) got an unexpected keyword argument 'more'"):
        step("a", more=1)


@BOTH
def test_a_frozen_one_is_not_changed(dataclass: Decorator) -> None:
    one = made_with(dataclass, frozen=True, slots=True)("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
        one.name = "b"
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'name'"):
        del one.name


@BOTH
def test_a_frozen_one_is_hashed_by_what_is_compared(dataclass: Decorator) -> None:
    @dataclass(frozen=True)
    class Pair:
        """Two."""

        left: int
        right: int = dataclasses.field(default=0, compare=False)

    assert hash(Pair(1, 2)) == hash(Pair(1, 3)) != hash(Pair(2))


@BOTH
def test_what_is_not_wanted_stays_that_of_objects(dataclass: Decorator) -> None:
    by_identity = made_with(dataclass, eq=False, repr=False)
    one = by_identity("a")
    assert one != by_identity("a")
    assert hash(one) != hash(by_identity("a"))
    assert "object at" in repr(one)
    assert made_with(dataclass).__hash__ is None


@BOTH
def test_a_class_keeps_the_methods_it_has_and_is_told_when_it_is_made(dataclass: Decorator) -> None:
    @dataclass
    class Checked:  # noqa: PLW1641 - on purpose
        """A positive number."""

        value: int

        def __post_init__(self) -> None:
            if self.value < 1:
                raise ValueError(self.value)

        def __repr__(self) -> str:
            return f"<{self.value}>"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Checked)

    assert (repr(Checked(1)), Checked(1) == Checked(2), vars(Checked)["__hash__"]) == ("<1>", True, None)
    with pytest.raises(ValueError, match="0"):
        Checked(0)


@BOTH
def test_one_extends_another(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class First:
        """Has one field."""

        one: int

    @dataclass(frozen=True, slots=True)
    class Second(First):
        """Has two."""

        two: int = 2

    assert repr(Second(1)).endswith("Second(one=1, two=2)")
    assert Second(1) == Second(1, 2) != First(1)
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclass(types.new_class("Third", (First,)))


@BOTH
def test_a_plain_subclass_of_a_frozen_one_with_slots_is_made_as_well(dataclass: Decorator) -> None:
    step = made_with(dataclass, frozen=True, slots=True)
    empty: dict[str, object] = {}
    for slots in (empty, {"__slots__": ()}, {"__slots__": ("more",)}):
        special: Any = type("Special", (step,), slots)
        one = special("a", tags=["t"])
        assert type(one) is special
        assert (one.name, one.secret, one.tags, one.size, one.notes) == ("a", "s", ["t"], 3, [])


@BOTH
def test_a_frozen_one_with_slots_completes_itself_and_may_refuse(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Sum:
        """Three numbers and what they add up to."""

        one: int
        two: int
        three: int
        total: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            if self.one < 0:
                raise ValueError(self.one)
            object.__setattr__(self, "total", self.one + self.two + self.three)

    made = Sum(1, 2, three=3)
    assert (made.total, type(made)) == (6, Sum)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.total = 7  # type: ignore[misc]
    with pytest.raises(ValueError, match="-1"):
        Sum(-1, 2, 3)


def test_the_first_instance_may_come_out_of_a_pickle() -> None:
    read = pickle.loads(pickle.dumps(Point(1)))
    assert (read, hash(Point), read.y) == (Point(1), hash(Point), [])


def test_methods_are_compiled_when_they_are_first_called() -> None:
    step = made_with(late.dataclass)
    assert "name" not in inspect.signature(step.__init__).parameters
    step("a")
    assert list(inspect.signature(step).parameters) == ["name", "secret", "cost", "tags"]


def test_no_module_uses_the_standard_one() -> None:
    """Except in the configuration, which imports nothing of ours."""
    found = [
        path.relative_to(SOURCE)
        for path in SOURCE.rglob("*.py")
        if SOURCE / "config" not in path.parents and path != Path(late.__file__)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if "dataclass" in [each.name for each in node.names]
    ]
    assert found == [], "import it from agent_fabric.domain.dataclass"
