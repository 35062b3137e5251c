"""The policy of a server: what may happen there, and why."""

import math
from collections.abc import Iterable

from agent_fabric.client.transport import Resource
from agent_fabric.client.wire import json_from
from agent_fabric.wire.shape import Json

BASE = "/api/v1/policy"


class PolicyRules(Resource):
    """The rules that a server has started with."""

    async def show(self) -> Json:
        """Return the rules in force, and where they are written."""
        return await self._get(json_from("version", "rules"), BASE)

    async def check(self, command: str, *, agent: str = "", level: str = "A", scopes: Iterable[str] = ()) -> Json:
        """Return what the policy says about a command line, part by part; nothing is run.

        `scopes` are those of the user behind the run.

        Raises:
            ConfigError: there is no such level.
        """
        body = {"command": command, "agent": agent, "level": level, "scopes": list(scopes)}
        return await self._post(json_from("verdict", "parts"), f"{BASE}/check", body)

    async def simulate(self, text: str, *, file: str = "policy.yaml", since_s: float = 30 * 86_400.0) -> Json:
        """Return which past calls would be decided otherwise with the rules of a policy file added.

        `text` is what stands in it; `file` is only how messages call it.

        Raises:
            ConfigError: the text holds no rules that can be used.
        """
        body = {"text": text, "file": file, "since_s": since_s}
        return await self._post(json_from("runs", "calls", "changes"), f"{BASE}/simulate", body, timeout_s=math.inf)
