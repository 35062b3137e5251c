"""Finds the hub: the server that machines are connected to."""

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.cli.place import AUTO, Place, server_of, with_client

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient

T = TypeVar("T")


def at_server(at: Place, work: "Callable[[FabricClient], Coroutine[Any, Any, T]]") -> T:
    """Ask the hub: the server that was named, or the one that runs for this folder."""
    url = _hub(at)
    if url is None:
        raise ConfigError(
            "Machines are connected to a server, and none runs for this folder",
            hint="Start one with `fabric serve`, or name one with --server URL.",
        )
    return with_client(url, work)


def has_hub(at: Place) -> bool:
    """Tell whether there is a server to ask."""
    return _hub(at) is not None


def _hub(at: Place) -> str | None:
    return server_of(None, at.server) or server_of(None, AUTO)


def refuse_unknown(selector: str, found: Sequence[object]) -> None:
    """Say that a selector fits no machine."""
    if not found:
        raise ConfigError(f"No machine fits {selector!r}", hint="See them with: fabric nodes list")
