"""Adding many documents as a run: each is a step, so that a run which was killed goes on with what is missing.

And what such a run has added.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent_fabric.domain.errors import DocumentUnreadable
from agent_fabric.domain.runs.task import RunResult, RunStatus

MAX_SOURCES: Final = 10_000
ADD_FILE: Final = "add_document_file"
ADD_PAGE: Final = "add_document_page"
EMBED: Final = "embed_documents"
"""Actions that no workflow file can name: they read what a person has named, in that person's name."""


def _step(name: str, action: str, argument: str) -> dict[str, Any]:
    """Return the step that adds one item; killed in the middle, it is done again."""
    inputs = {argument: "{{ item }}", "labels": "{{ inputs.labels }}", "team": "{{ inputs.team }}"}
    return {"id": name, "action": action, "idempotent": True, "inputs": inputs}


INGESTION: Final[Mapping[str, Any]] = {
    "name": "add-documents",
    "version": "1.0.0",
    "description": "Adds documents to memory",
    "inputs": {
        "files": {"type": "array", "default": []},
        "pages": {"type": "array", "default": []},
        "labels": {"type": "array", "default": []},
        "team": {"type": "boolean", "default": False},
    },
    "steps": [
        {
            "id": "files",
            "action": "for-each",
            "inputs": {"items": "{{ inputs.files }}", "max_items": MAX_SOURCES},
            "steps": [_step("add", ADD_FILE, "path")],
        },
        {
            "id": "pages",
            "action": "for-each",
            "depends_on": ["files"],
            "inputs": {"items": "{{ inputs.pages }}", "max_items": MAX_SOURCES},
            "steps": [_step("add_page", ADD_PAGE, "url")],
        },
        {
            "id": "vectors",
            "action": EMBED,
            "idempotent": True,
            "depends_on": ["pages"],
            "retry": {"max_attempts": 3, "delay_seconds": 5},
        },
    ],
}
"""The workflow. Words can be searched after each document, meaning after the last step."""


def ingestion_inputs(
    files: Sequence[str], pages: Sequence[str], labels: Sequence[str], *, team: bool
) -> dict[str, Any]:
    """Return the inputs of the workflow."""
    return {"files": list(files), "pages": list(pages), "labels": list(labels), "team": team}


def outcome_of(result: RunResult) -> dict[str, Any]:
    """Return what a run has added, and what it could not read.

    Raises:
        DocumentUnreadable: it could add nothing.
    """
    added: list[Any] = []
    problems: list[Any] = []
    for step, name in (("files", "add"), ("pages", "add_page")):
        each_result = result.payload.get("outputs", {}).get(step, {}).get("results", ())
        for each in each_result:
            given = each.get(name, {})
            (problems if "problem" in given else added).append(given)
    if result.status is RunStatus.FAILED and not added:
        problem = result.error
        raise DocumentUnreadable(
            problem.message if problem is not None else "Nothing could be added",
            hint=f"See: fabric logs show {result.run_id}",
        )
    return {"run_id": result.run_id, "status": result.status.value, "added": added, "problems": problems}
