"""Finds the server that runs for a fabric folder."""

from pathlib import Path

from agent_fabric.infrastructure.runs.log.server_address import recorded_server


def running_server(root: Path) -> str | None:
    """Return the address of the server that runs for a folder; None without one."""
    url = recorded_server(root)
    if url is None:
        return None
    from agent_fabric.infrastructure.clock import RandomIds, SystemClock  # noqa: PLC0415 - mostly, no server runs
    from agent_fabric.infrastructure.persistence.storage import open_storage  # noqa: PLC0415 - as above
    from agent_fabric.infrastructure.runs.log.layout import Layout  # noqa: PLC0415 - as above

    storage = open_storage(root, clock=SystemClock(), ids=RandomIds(), run_dir=Layout(root).run_dir)
    return url if storage.leases.is_served() else None
