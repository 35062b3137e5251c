"""Says once for each fabric folder that everyone sees all runs, where no setting decides about it."""

from pathlib import Path

from agent_fabric.config.schema.identity import IdentityConfig

PROBLEM = "Everyone with `runs:read` sees all runs, because `identity.visibility` is not set"
HINT = "Set it to `team` or `private`; in the next release it counts as `private`."
MARK = "runs-shared-said"
"""The file in a fabric folder that says that it has been said."""


def is_to_be_said(root: Path, config: IdentityConfig) -> bool:
    """Tell whether it is to be said now, and remember that it was; asked once other people can see runs."""
    if "visibility" in config.model_fields_set:
        return False
    try:
        (root / MARK).touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        return True  # better said twice than never
    return True
