"""The store's status, for those who read JSON."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from agent_fabric.application.ports.vitals import StoreStatus


def status_from(shown: Mapping[str, Any]) -> StoreStatus:
    """Return how a server says that its store stands."""
    known = {field.name: shown[field.name] for field in fields(StoreStatus)}
    return StoreStatus(**{**known, "damage": None if known["damage"] is None else tuple(known["damage"])})


def status_object(status: StoreStatus) -> dict[str, Any]:
    """Return how the store stands."""
    return {**asdict(status), "damage": None if status.damage is None else list(status.damage)}
