"""Shows the configuration in force."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from agent_fabric.config.loader import Loaded
from agent_fabric.config.plain import dotted
from agent_fabric.config.schema.fabric import FabricConfig

HIDDEN: Final = "***"
_SECRET_NAME: Final = re.compile(r"auth|token|secret|key|cookie|passw|credential|session|signature", re.IGNORECASE)


class ShownSetting(NamedTuple):
    """One setting, ready to be printed."""

    path: str
    """Dotted, as in `models.fast.base_url`."""
    value: Any
    origin: str
    """`default`, `package NAME VERSION`, `file /path`, `env FABRIC_NAME` or `flag`."""


def show_config(config: FabricConfig) -> dict[str, Any]:
    """Return the configuration as plain nested data, with what looks like a secret hidden."""
    shown = config.model_dump(mode="json")
    for model in shown["models"].values():
        model["headers"] = _without_secrets(model["headers"])
    for specialist in shown["specialists"].values():
        for server in specialist["mcp_servers"]:
            server["headers"] = _without_secrets(server["headers"])
            server["env"] = _without_secrets(server["env"])
            server["url"] = _without_query(server["url"])
    return shown


def show_origins(loaded: Loaded) -> list[ShownSetting]:
    """Return every setting with its origin, in the order of the schema."""
    return _flat(show_config(loaded.config), (), loaded.origins)


def _without_secrets(named: Mapping[str, str]) -> dict[str, str]:
    return {name: HIDDEN if _SECRET_NAME.search(name) else value for name, value in named.items()}


def _without_query(url: str | None) -> str | None:
    return f"{url.partition('?')[0]}?{HIDDEN}" if url and "?" in url else url


def _flat(value: Any, path: tuple[str, ...], origins: Mapping[str, str]) -> list[ShownSetting]:
    if isinstance(value, Mapping) and value:
        return [setting for key, item in value.items() for setting in _flat(item, (*path, key), origins)]
    return [ShownSetting(dotted(path), value, origins[dotted(path)])]
