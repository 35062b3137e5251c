"""Duties of a hub outlive a store that is gone for a while."""

import asyncio
import logging
from collections.abc import Awaitable

from agent_fabric.domain.errors import FabricError

_log = logging.getLogger(__name__)


async def attempt(work: Awaitable[object], what: str) -> None:
    """Await work that is done again and again; what goes wrong is logged, and does not end the duty."""
    try:
        await work
    except FabricError as problem:
        _log.warning("%s: %s", what, problem.message)
    except asyncio.CancelledError:
        raise
    except Exception:  # noqa: BLE001 - without the duty, no one would do it any more
        _log.exception("%s", what)
