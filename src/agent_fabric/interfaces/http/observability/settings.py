"""Settings that may be changed on the page."""

from collections.abc import Iterable
from typing import Any

from fastapi import Request
from pydantic import Field

from agent_fabric.application.observability.change_settings import ShownSetting
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.bodies import RequestBody
from agent_fabric.interfaces.http.locks import who_answers
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.wire.shape import Listing, Shape

SETTINGS = Listing(
    "settings", Shape(ShownSetting), name="SettingList", about="Settings that may be changed while the server runs."
)


class SettingsChange(RequestBody, json_schema_extra={"examples": [{"values": {"chat.max_turns": 20}}]}):
    """New values by the dotted name of their settings; null takes a change back."""

    values: dict[str, Any] = Field(default={}, max_length=50)


def add_settings(routes: Routes, fabric: ServerFabric) -> None:
    """Add the routes."""
    stored = fabric.stored_settings

    @routes.get("/api/v1/settings", Scope.ADMIN, "List settings that may be changed", SETTINGS)
    async def list_settings() -> Iterable[ShownSetting]:
        """What counts, where it comes from, and whether it was changed here."""
        return await stored.show()

    @routes.patch("/api/v1/settings", Scope.ADMIN, "Change settings", SETTINGS)
    async def change(wish: SettingsChange, request: Request) -> Iterable[ShownSetting]:
        """They are kept in the fabric folder, over its files and below the environment, and count after a restart."""
        return await stored.change(wish.values, by=await who_answers(request))
