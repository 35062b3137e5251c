"""A small change of a configuration file: texts of one model."""

from collections.abc import Mapping
from typing import Any

Change = Mapping[str, str | None]
"""Names of settings with their new texts; None takes a setting away."""


class CannotEdit(Exception):
    """The file is written in a way that this program does not dare to touch."""


def applied(settings: Mapping[str, Any], key: str, change: Change) -> dict[str, Any]:
    """Return settings with the change made below `models.<key>`."""
    models = settings.get("models")
    models = dict(models) if isinstance(models, Mapping) else {}
    entry = models.get(key)
    entry = dict(entry) if isinstance(entry, Mapping) else {}
    for name, text in change.items():
        if text is None:
            entry.pop(name, None)
        else:
            entry[name] = text
    return {**settings, "models": {**models, key: entry}}
