"""Derives the ids of child runs."""

import hashlib
import uuid

from agent_fabric.domain.ids import LaneId, RunId


def child_run_id(parent: RunId, lane: LaneId, attempt: int) -> RunId:
    """Return the id of the child run of one attempt. It is the same after a crash."""
    digest = hashlib.sha256(f"{parent}/{lane}/{attempt}".encode(errors="surrogatepass")).digest()
    return RunId(str(uuid.UUID(bytes=digest[:16], version=5)))
