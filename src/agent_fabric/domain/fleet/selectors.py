"""Which nodes are meant: a name, `role=web,env!=dev`, or `all`."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.fleet.nodes import Node


class _Condition(NamedTuple):
    label: str
    value: str
    is_equal: bool

    def fits(self, labels: Mapping[str, str]) -> bool:
        return (labels.get(self.label) == self.value) is self.is_equal


def select_nodes(selector: str, nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that a selector means, by name.

    Raises:
        InvalidInputs: it is no selector.
    """
    found = [node for node in nodes if _fits(selector.strip(), node)]
    return sorted(found, key=lambda node: node.name)


def _fits(selector: str, node: Node) -> bool:
    if not selector:
        raise InvalidInputs("the selector is empty; write a name, role=web, or all")
    if selector == "all":
        return True
    if "=" not in selector:
        names = [name.strip() for name in selector.split(",")]
        return any(name in {node.name, node.id} for name in names) or (
            len(selector) >= 8 and node.id.startswith(selector)
        )
    labels = {**node.labels, **node.facts}
    return all(condition.fits(labels) for condition in _conditions(selector))


def _conditions(selector: str) -> list[_Condition]:
    found = []
    for part in selector.split(","):
        label, sign, value = part.strip().partition("!=")
        if not sign:
            label, sign, value = part.strip().partition("=")
        if not sign or not label.strip() or not value.strip():
            raise InvalidInputs(f"{part.strip()!r} is no condition; write role=web or env!=dev")
        found.append(_Condition(label.strip(), value.strip(), "!=" not in part))
    return found
