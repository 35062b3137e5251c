"""Joins what uses answers of models again, where that is switched on."""

import os

from agent_fabric.application.ports.responses import ResponseIndex
from agent_fabric.application.ports.storage import Storage
from agent_fabric.application.runs.reuse_answers import ReuseAnswers
from agent_fabric.bootstrap.store_place import configured_address
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.infrastructure.audit.audit_key_file import audit_key


def open_reuse(config: FabricConfig, storage: Storage) -> ReuseAnswers | None:
    """Return what finds answers again; None: this user has no key, and questions must not be guessed from their hashes.

    Raises:
        ConfigProblem: the address of Redis is a reference that leads nowhere.
        MissingExtra: the client of Redis is not installed.
    """
    key = audit_key(os.environ)
    if not key.value:
        return None
    return ReuseAnswers(_index(config, storage), storage.reader, key.value)


def _index(config: FabricConfig, storage: Storage) -> ResponseIndex:
    url = config.redis.address(os.environ)
    if url is None or not configured_address(config.store, os.environ).is_remote:
        return storage.responses
    try:
        from agent_fabric.infrastructure.cluster.redis.responses import RedisResponses  # noqa: PLC0415 - half a second
    except ModuleNotFoundError:
        raise MissingExtra("cluster", needed_for="`redis.url`") from None
    return RedisResponses(url)
