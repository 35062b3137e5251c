"""Skills that a server's runs are offered."""

from urllib.parse import quote

from agent_fabric.client.transport import Resource
from agent_fabric.client.wire import json_from
from agent_fabric.wire.shape import Json

BASE = "/api/v1/skills"


class Skills(Resource):
    """Skills at a server. They are added and trusted at its own terminal."""

    async def list(self) -> Json:
        """Return all that `fabric skills list --json` prints."""
        return await self._get(json_from("skills"), BASE)

    async def show(self, name: str) -> Json:
        """Return a skill with what it says.

        Raises:
            DefinitionNotFound: there is none.
        """
        return await self._get(json_from("skill", "instructions"), f"{BASE}/{quote(name, safe='')}")
