"""What a store says about its runs, in a form that later versions must still be able to say.

Stores of earlier versions are recorded by `scripts/record_store.py`, a folder each, below `tests/data/recorded`.
"""

import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.runs import RunQuery
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.domain.events import UnknownEvent
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.state import result_of

RECORDED = Path(__file__).parent / "data" / "recorded"
EXPECTED, BACKUP, DUMP = "expected.json.xz", "folder.tar.gz", "postgres.sql.xz"
_PAGE = 1_000


async def describe(fabric: LocalFabric) -> dict[str, Any]:
    """Return, for each run, its events by kind and what they fold to."""
    records = fabric.records
    found: dict[str, Any] = {}
    before: int | None = None
    while True:
        page = await records.catalogue.page(RunQuery(limit=200, older_than=before))
        for record in page.records:
            found[record.run_id] = await _describe_run(fabric, record.run_id)
        if page.older_than is None:
            return found
        before = page.older_than


async def _describe_run(fabric: LocalFabric, run_id: RunId) -> dict[str, Any]:
    events = await fabric.records.storage.reader.page(run_id, after=-1, limit=_PAGE)
    unknown = [event.body.kind for event in events if isinstance(event.body, UnknownEvent)]
    assert not unknown, f"{run_id} has events that this version does not know: {unknown}"
    state = fold(run_id, events)
    result = result_of(state)
    plain = {
        "kinds": [event.body.kind for event in events],
        "status": state.status,
        "prompt": state.task.prompt if state.task is not None else "",
        "specialists": list(result.specialist_ids),
        "payload": result.payload,
        "steps": result.steps,
        "proof": result.proof.kind,
        "error": result.error.code if result.error is not None else "",
        "untrusted": sorted(state.untrusted),
        "private": sorted(state.private),
        "messages": {lane: [message.role for message in each.messages] for lane, each in state.lanes.items()},
    }
    return dict(json.loads(json.dumps(plain, default=str)))


def expected(folder: Path) -> Mapping[str, Any]:
    """Return what the version that recorded a store said about its runs."""
    return dict(json.loads(lzma.decompress((folder / EXPECTED).read_bytes())))
