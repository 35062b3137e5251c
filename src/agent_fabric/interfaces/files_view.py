"""The files that a run has made, as one JSON object: of the API, and of the command line."""

from typing import Any

from agent_fabric.domain.runs.files import RunFileList


def files_object(found: RunFileList) -> dict[str, Any]:
    """Return the object of `GET /runs/{run_id}/files`."""
    files = [{"path": one.path, "bytes": one.size, "modified_at": one.modified_at} for one in found.files]
    return {"run_id": found.run_id, "files": files, "truncated": found.truncated}
