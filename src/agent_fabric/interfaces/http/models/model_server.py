"""The llama-server that fabric owns: look at it, switch its model or its options, start it again."""

from pydantic import ValidationError
from starlette.responses import Response

from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.infrastructure.models.managed import ManagedBackend
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import refused
from agent_fabric.interfaces.http.errors import refusal
from agent_fabric.interfaces.http.models.model_server_schemas import MODEL_SERVER, ModelServerChange, ModelServerOptions
from agent_fabric.interfaces.http.routing import Routes

PATH = "/models/server"


def add_model_server(routes: Routes, fabric: ServerFabric) -> None:
    """Add the routes. Which program is started, only the configuration file says."""
    refusals = [404, 413, 415, 502, 503]

    def owned() -> ManagedBackend | None:
        return None if fabric.config.managed_llama is None else fabric.models.stack.managed

    @routes.get(PATH, Scope.RUNS_READ, "Show our llama-server", MODEL_SERVER, fails=[404])
    async def show() -> Response:
        """Answer at once, also during a switch: its model, its options, and how busy it is."""
        managed = owned()
        return _none() if managed is None else _shown(managed)

    @routes.put(
        PATH,
        Scope.ADMIN,
        "Switch the model or the options of our llama-server",
        MODEL_SERVER,
        body=ModelServerChange,
        fails=refusals,
    )
    async def switch(change: ModelServerChange) -> Response:
        """Wait for the answers that are being written, start llama-server anew, and return its state.

        New requests wait meanwhile, and none is lost. What the body does not name stays as it is. When the new model
        does not start, the old one is started again, and the problem says why. The configuration file stays as it is.
        """
        managed = owned()
        if managed is None:
            return _none()
        try:
            await managed.switch(change.model_dump(exclude_unset=True))
        except ValidationError as problem:
            raise refused(problem) from None
        return _shown(managed)

    @routes.post(f"{PATH}/restart", Scope.ADMIN, "Restart the managed llama-server", MODEL_SERVER, fails=refusals)
    async def restart() -> Response:
        """Wait for the answers that are being written, and start llama-server as it was; also when it does not run."""
        managed = owned()
        if managed is None:
            return _none()
        await managed.restart()
        return _shown(managed)


def _none() -> Response:
    return refusal(
        404,
        "There is no llama-server that fabric owns",
        hint="Set `managed_llama.model` in the configuration to the absolute path of a GGUF file, and restart.",
    )


def _shown(managed: ManagedBackend) -> Response:
    options = managed.llama.config.model_dump(mode="json", include=set(ModelServerOptions._fields))
    return json_answer({**MODEL_SERVER.dump(managed.status()), "options": options})
