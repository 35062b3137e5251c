"""What became of checking a run, as one JSON object: the same for the command line and for HTTP."""

from typing import Any

from agent_fabric.application.runs.verify_run import Verification


def verification_object(found: Verification) -> dict[str, Any]:
    """Return every claim of a run, and how it stands."""
    return {
        "run_id": found.run_id,
        "status": str(found.status),
        "specialist_ids": list(found.specialist_ids),
        "prompt": found.prompt,
        "holds": found.holds,
        "events": found.log.events,
        "last_hash": found.log.head,
        "claims": [
            {"about": claim.about, "standing": claim.standing.value, "detail": claim.detail} for claim in found.claims
        ],
    }
