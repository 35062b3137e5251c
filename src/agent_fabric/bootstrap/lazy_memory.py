"""The search in documents and facts, made when a run first asks for it: most runs never do."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_fabric.application.memory.search_memory import SearchMemory
    from agent_fabric.bootstrap.records import Records
    from agent_fabric.config.schema.fabric import FabricConfig


def lazy_memory(records: "Records", config: "FabricConfig") -> "Callable[[], SearchMemory]":
    """Return what makes the search, once."""

    @cache
    def search() -> "SearchMemory":
        from agent_fabric.bootstrap.memory import open_memory  # noqa: PLC0415 - see above

        return open_memory(records, config).search

    return search
