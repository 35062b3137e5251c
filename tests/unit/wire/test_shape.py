"""Things as JSON: one definition writes them, reads them and describes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import pytest

from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.wire.description import schemas_of
from agent_fabric.wire.shape import Listing, Shape


class Colour(StrEnum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Wheel(NamedTuple):
    """What a cart rolls on."""

    size: int
    spare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What moves a cart."""

    power: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cart:
    """Something that rolls."""

    cart_id: RunId
    colour: Colour
    """How it is painted."""
    wheels: Sequence[Wheel]
    labels: frozenset[Colour] = frozenset()
    notes: Mapping[str, Any] | None = None
    owner: str = ""
    engine: Engine | None = None

    @property
    def rolls(self) -> bool:
        """Whether it has wheels."""
        return bool(self.wheels)


CART = Shape(Cart, "id=cart_id colour wheels labels notes owner? rolls *engine", fixed={"kind": "cart"})
PLAIN = Cart(cart_id=RunId("c-1"), colour=Colour.RED, wheels=(Wheel(3),), labels=frozenset(Colour))


def test_an_object_is_written_under_its_keys_with_empty_values_as_null() -> None:
    assert CART.dump(PLAIN) == {
        "kind": "cart",
        "id": "c-1",
        "colour": "red",
        "wheels": [{"size": 3, "spare": False}],
        "labels": ["blue", "red"],
        "notes": None,
        "owner": None,
        "rolls": True,
    }


def test_a_part_is_merged_or_left_out() -> None:
    moved = Cart(cart_id=RunId("c-1"), colour=Colour.RED, wheels=(), engine=Engine(power=2.5))
    assert CART.dump(moved)["power"] == 2.5
    assert "power" not in CART.dump(PLAIN)


def test_what_was_written_is_read_back_and_keys_of_a_newer_server_are_ignored() -> None:
    assert CART.load({**CART.dump(PLAIN), "newer": 1}) == PLAIN


def test_a_key_with_a_default_may_be_missing_and_another_may_not() -> None:
    shown = CART.dump(PLAIN)
    assert CART.load({key: value for key, value in shown.items() if key != "labels"}).labels == frozenset()
    with pytest.raises(KeyError, match="colour"):
        CART.load({key: value for key, value in shown.items() if key != "colour"})


@pytest.mark.parametrize("wrong", ["../etc", "", 3, None])
def test_an_id_that_could_lead_elsewhere_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="no id of a run"):
        CART.load(CART.dump(PLAIN) | {"id": wrong})


def test_a_status_that_only_a_newer_server_knows_is_not_settled() -> None:
    class Line(NamedTuple):
        status: RunStatus

    assert Shape(Line).load({"status": "dreaming"}).status is RunStatus.WAITING


def test_a_shape_that_names_something_else_is_found_out() -> None:
    with pytest.raises(KeyError, match="color"):
        Shape(Cart, "color").dump(PLAIN)


def test_the_description_has_every_key_with_its_type_and_the_text_under_the_field() -> None:
    described = schemas_of([Listing("carts", CART, name="Carts", about="All carts.")])
    assert described["Carts"]["properties"]["carts"]["items"] == {"$ref": "#/components/schemas/Cart"}
    properties = described["Cart"]["properties"]
    assert properties["kind"] == {"const": "cart", "type": "string"}
    assert properties["colour"] == {"type": "string", "enum": ["red", "blue"], "description": "How it is painted."}
    assert properties["owner"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert properties["rolls"] == {"type": "boolean", "description": "Whether it has wheels."}
    assert properties["power"] == {"type": "number"}
    assert described["Cart"]["required"] == ["kind", "id", "colour", "wheels", "labels", "notes", "owner", "rolls"]
    assert described["Wheel"]["properties"]["size"] == {"type": "integer"}
