"""Lets the servers of a cluster hand over what turns of sessions have left."""

import logging
import os
from collections.abc import Callable

from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.application.ports.turn_contexts import TurnContexts
from agent_fabric.bootstrap.store_place import configured_address
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.chat.turn_context import context_after
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.state import RunState
from agent_fabric.infrastructure.audit.audit_key_file import audit_key

_log = logging.getLogger(__name__)


def open_turn_contexts(config: FabricConfig, cipher_of: Callable[[RunId], Cipher | None]) -> TurnContexts | None:
    """Return the cache in Redis; None: there is no Redis, no other server, or no key that all of them share.

    `cipher_of` gives the ciphers of encrypted runs; it may block.

    Raises:
        ConfigProblem: the address is a reference that leads nowhere.
        MissingExtra: the client of Redis is not installed.
    """
    url, key = config.redis.address(os.environ), audit_key(os.environ)
    if url is None or not configured_address(config.store, os.environ).is_remote or not key.value:
        return None
    try:
        from agent_fabric.infrastructure.cluster.redis.turn_contexts import RedisTurnContexts  # noqa: PLC0415 - half a second
    except ModuleNotFoundError:
        raise MissingExtra("cluster", needed_for="`redis.url`") from None
    return RedisTurnContexts(url, key.value, cipher_of)


def keep_context(contexts: TurnContexts | None) -> Callable[[RunState], None] | None:
    """Return what keeps the end of each turn; None: nothing does."""
    if contexts is None:
        return None

    def keep(state: RunState) -> None:
        if state.task is None or not state.task.session:
            return
        try:
            contexts.put(context_after(state))
        except Exception:  # noqa: BLE001 - the turn has ended well, and its log has it all
            _log.exception("The end of a turn could not be cached")

    return keep
