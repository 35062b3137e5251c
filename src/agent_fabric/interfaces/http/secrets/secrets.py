"""Secrets: keep them, forget them, change the keys that seal them. Their values only ever come in."""

import asyncio
from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.bootstrap.records import resealing
from agent_fabric.bootstrap.runs import change_secrets
from agent_fabric.config.secret_references import FILE_NAME
from agent_fabric.domain.errors import SecretNotFound
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.openapi import gives
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.interfaces.http.schemas import SecretValue
from agent_fabric.interfaces.views.secrets import ROTATION, SECRET, SECRETS

Name = Annotated[str, Path(pattern=f"^{FILE_NAME}$", description="What the secret is called, as in `file:NAME`.")]


def add_secrets(routes: Routes, local: LocalFabric) -> None:
    """Add the routes. All are for administrators."""
    secrets = local.secrets
    file, change = secrets.file, change_secrets(secrets, local.records)

    @routes.get("", Scope.ADMIN, "List the secrets that are kept here, without their values", SECRETS, fails=[503])
    async def listed() -> Response:
        """The same as `fabric secrets list --json`."""
        stored = await asyncio.to_thread(file.list_secrets)
        return json_answer(SECRETS.dump(stored))

    @routes.put(
        "/{name}",
        Scope.ADMIN,
        "Keep a secret, sealed",
        SECRET,
        fails=[503],
        also=gives(SECRET, status=201, text="It is a new one."),
    )
    async def put(wish: SecretValue, name: Name, by: Principal) -> Response:
        """Settings refer to it as `file:NAME`, workflows as `{{ secrets.NAME }}`, from the next use on."""
        is_new = await change.set(name, wish.value, by=by)
        stored = {each.name: each for each in await asyncio.to_thread(file.list_secrets)}
        if name not in stored:
            raise _missing(name)  # it was removed again at once
        return json_answer(SECRET.dump(stored[name]), 201 if is_new else 200)

    @routes.delete("/{name}", Scope.ADMIN, "Forget a secret", status=204, fails=[404, 503])
    async def delete(name: Name, by: Principal) -> None:
        """What refers to it fails from the next use on."""
        if not await change.remove(name, by=by):
            raise _missing(name)

    @routes.post(
        "/rotate",
        Scope.ADMIN,
        "Make a new key, and seal secrets and encrypted runs with it",
        ROTATION,
        fails=[409, 503],
    )
    async def rotated(by: Principal) -> Response:
        """Runs keep working. Old keys stay until `fabric secrets rotate --drop-old`, which only a terminal can."""
        done = await resealing(secrets, local.records.storage)(by=by)
        keys = await asyncio.to_thread(lambda: list(secrets.keyring().generations()))
        return json_answer({**ROTATION.dump(done), "keys": keys})


def _missing(name: str) -> SecretNotFound:
    return SecretNotFound(f"There is no secret {name[:100]!r} here", hint="GET /api/v1/secrets lists what there is.")
