"""The processes that share the server's database."""

from fastapi import FastAPI
from starlette.responses import Response

from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.openapi import operation
from agent_fabric.wire.cluster import CLUSTER, view_of


def add_cluster(app: FastAPI, fabric: ServerFabric) -> None:
    """Add the route. It is for administrators: it tells about machines and about runs of all people."""

    @app.get(
        "/api/v1/cluster",
        **operation(
            "operations", Scope.ADMIN, "Show the servers and workers that share the store", CLUSTER, fails=[503]
        ),
    )
    async def status() -> Response:
        """Return who is there, what they drive, and what nobody can drive, and why: `fabric cluster status --json`."""
        cluster = fabric.records.storage.cluster
        return json_answer(CLUSTER.dump(view_of(None if cluster is None else await cluster.status())))
