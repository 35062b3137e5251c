"""Shows the configuration in force."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from agent_fabric.config.loader import Loaded
from agent_fabric.config.plain import dotted_path
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.config.secret_references import HIDDEN, hide_passwords, reference_in
from agent_fabric.config.store_address import without_password

_SECRET_NAME: Final = re.compile(r"auth|token|secret|key|cookie|passw|credential|session|signature", re.IGNORECASE)
_SERVICES: Final = ("nats", "redis")


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
    shown["store"]["url"] = without_password(shown["store"]["url"])
    for model in shown["models"].values():
        model["headers"] = _without_secrets(model["headers"])
    for specialist in shown["specialists"].values():
        specialist["mcp_servers"] = [_harmless(server) for server in specialist["mcp_servers"]]
    for service in _SERVICES:
        if shown[service]["url"] is not None:
            shown[service]["url"] = hide_passwords(shown[service]["url"])
    return shown


def show_server(server: MCPServerConfig) -> dict[str, Any]:
    """Return one tool server as plain nested data; what looks like a secret is hidden, a reference to one is not."""
    shown = _harmless(server.model_dump(mode="json"))
    for named, given in (("env", server.env), ("headers", server.headers)):
        shown[named] |= {name: value for name, value in given.items() if reference_in(value)}
    return shown


def show_origins(loaded: Loaded) -> list[ShownSetting]:
    """Return every setting with its origin, in the order of the schema."""
    return _flat(show_config(loaded.config), (), loaded.origins)


def _harmless(server: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **server,
        "headers": _without_secrets(server["headers"]),
        "env": _without_secrets(server["env"]),
        "url": _without_query(server["url"]),
    }


def _without_secrets(named: Mapping[str, str]) -> dict[str, str]:
    return {name: HIDDEN if _SECRET_NAME.search(name) else value for name, value in named.items()}


def _without_query(url: str | None) -> str | None:
    return f"{url.partition('?')[0]}?{HIDDEN}" if url and "?" in url else url


def _flat(value: Any, path: tuple[str, ...], origins: Mapping[str, str]) -> list[ShownSetting]:
    if isinstance(value, Mapping) and value:
        return [setting for key, item in value.items() for setting in _flat(item, (*path, key), origins)]
    return [ShownSetting(dotted_path(path), value, origins[dotted_path(path)])]
