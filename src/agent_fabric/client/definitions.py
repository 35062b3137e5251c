"""What the agents and the workflows of a server have in common: files that define something to run."""

from collections.abc import Mapping
from typing import Any, ClassVar

from agent_fabric.client.transport import Named, Resource
from agent_fabric.client.wire import json_from, started_run
from agent_fabric.domain.errors import DefinitionNotFound
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.ids import RunId
from agent_fabric.wire.shape import Json


class Definitions(Resource):
    """Definitions of one kind."""

    kind: ClassVar[str]
    command: ClassVar[str]
    """The command line's word for them."""
    verb: ClassVar[str]
    """The last part of the route that runs one."""
    listed: ClassVar[tuple[str, ...]]
    """What the list of them has at least; the first is the list itself."""

    @property
    def base(self) -> str:
        """Where the server has them."""
        return f"/api/v1/{self.listed[0]}"

    async def everything(self) -> Json:
        """Return all that the command `list --json` prints."""
        return await self._get(json_from(*self.listed), self.base)

    async def validate(self, text: str | None = None, *, file: str = "") -> Json:
        """Return what is wrong with the text of a file, or without one with any of the server's own.

        `file` is only how problems call it.
        """
        return await self._validate(text=text, file=file or f"{self.kind}.yaml")

    async def _validate(self, **wish: str | None) -> Json:
        body = {key: value for key, value in wish.items() if value is not None}
        return await self._post(json_from("valid", "files", "problems"), f"{self.base}/validate", body)

    async def show(self, name: str) -> Json:
        """Return everything about one: what it takes, what it gives, what it may do.

        Raises:
            DefinitionNotFound: there is none of this name.
        """
        return await self._get(json_from(), self._path(name))

    async def start(  # noqa: PLR0913 - the options of `fabric agents run`
        self,
        name: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        model_key: str | None = None,
        network_allowed: bool = True,
        encrypt: bool = False,
        visibility: Visibility | None = None,
        pool: str | None = None,
        require_proof: bool = False,
        max_cost: float | None = None,
    ) -> RunId:
        """Start one and do not wait for it; an agent that fails is not tried again.

        Raises:
            DefinitionNotFound: there is none of this name.
            InvalidInputs: the inputs do not fit what it takes.
        """
        query = {
            "wait": False,
            "model_key": model_key,
            "network_allowed": network_allowed,
            "encrypt": encrypt,
            "visibility": None if visibility is None else visibility.value,
            "pool": pool,
            "require_proof": require_proof or None,
            "max_cost": max_cost,
        }
        return await self._post(started_run, self._path(name, f"/{self.verb}"), dict(inputs or {}), query)

    @property
    def _path(self) -> Named:
        hint = f"See them with `fabric {self.command} list`."
        return Named(self.base, DefinitionNotFound, f"There is no {self.kind} {{!r}}", hint)
