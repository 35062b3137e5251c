"""Settings that may be changed on the page."""

from typing import Any

from fastapi import FastAPI, Request
from pydantic import Field
from starlette.responses import Response

from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.bootstrap.stored_settings import ShownSetting, StoredSettings
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import RequestBody, body_of
from agent_fabric.interfaces.http.locks import who_answers
from agent_fabric.interfaces.http.openapi import operation, takes
from agent_fabric.wire.shape import Listing, Shape

SETTINGS = Listing(
    "settings", Shape(ShownSetting), name="SettingList", about="Settings that may be changed while the server runs."
)


class SettingsChange(RequestBody, json_schema_extra={"examples": [{"values": {"chat.max_turns": 20}}]}):
    """New values by the dotted name of their settings; null takes a change back."""

    values: dict[str, Any] = Field(default={}, max_length=50)


def add_settings(app: FastAPI, fabric: ServerFabric) -> None:
    """Add the routes."""
    stored = StoredSettings(fabric.records.layout.root, fabric.config, fabric.records.storage.acts, fabric.clock)

    @app.get("/api/v1/settings", **operation("settings", Scope.ADMIN, "List settings that may be changed", SETTINGS))
    async def list_settings() -> Response:
        """What counts, where it comes from, and whether it was changed here."""
        return json_answer(SETTINGS.dump(await stored.show()))

    @app.patch(
        "/api/v1/settings",
        **operation("settings", Scope.ADMIN, "Change settings", SETTINGS, body=takes(SettingsChange)),
    )
    async def change(request: Request) -> Response:
        """They are kept in the fabric folder, over its files and below the environment, and count after a restart."""
        wish = await body_of(request, SettingsChange)
        return json_answer(SETTINGS.dump(await stored.change(wish.values, by=await who_answers(request))))
