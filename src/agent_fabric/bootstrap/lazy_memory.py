"""What runs do with documents and facts, made when a run first asks for it: most runs never do."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_fabric.application.ports.memory import RunMemory
    from agent_fabric.bootstrap.records import Records
    from agent_fabric.config.schema.fabric import FabricConfig


def lazy_memory(records: "Records", config: "FabricConfig") -> "Callable[[], RunMemory]":
    """Return what makes it, once."""

    @cache
    def memory() -> "RunMemory":
        from agent_fabric.bootstrap.memory import open_run_memory  # noqa: PLC0415 - see above

        return open_run_memory(records, config)

    return memory
