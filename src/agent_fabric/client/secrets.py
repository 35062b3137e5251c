"""Secrets that a server keeps. Their values only ever go in."""

import math
import re

from agent_fabric.client.transport import Resource
from agent_fabric.client.wire import json_from
from agent_fabric.config.secret_references import FILE_NAME
from agent_fabric.domain.errors import SecretNotFound
from agent_fabric.wire.shape import Json

BASE = "/api/v1/secrets"


class ServerSecrets(Resource):
    """What a server keeps sealed."""

    async def list(self) -> Json:
        """Return which secrets there are, and when they were changed: `secrets`."""
        return await self._get(json_from("secrets"), BASE)

    async def set(self, name: str, value: str) -> bool:
        """Keep a secret; return whether it is a new one.

        Raises:
            SecretNotFound: there cannot be one of this name.
        """
        return await self._post(
            lambda shown: bool(shown["created_at"] == shown["updated_at"]), _path(name), {"value": value}, method="PUT"
        )

    async def remove(self, name: str) -> None:
        """Forget a secret.

        Raises:
            SecretNotFound: there is none of this name.
        """
        await self._transport.post(_path(name), method="DELETE")

    async def rotate(self) -> Json:
        """Let the server make a new key, and seal secrets and encrypted runs with it."""
        return await self._post(json_from("generation", "new_key", "keys"), f"{BASE}/rotate", timeout_s=math.inf)


def _path(name: str) -> str:
    if not re.fullmatch(FILE_NAME, name):
        raise SecretNotFound(f"There is no secret {name!r} here", hint="`fabric secrets list` shows what there is.")
    return f"{BASE}/{name}"
