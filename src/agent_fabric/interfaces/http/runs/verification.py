"""Whether what runs claim is true."""

from fastapi import Request

from agent_fabric.application.runs.verify_run import Verification
from agent_fabric.bootstrap.audit import verify_run
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.interfaces.http.runs.runs import RunIdPath
from agent_fabric.wire.runs import VERIFICATION


def add_verification(routes: Routes, fabric: ServerFabric) -> None:
    """Add the route."""
    verify = verify_run(fabric.records)

    @routes.get(
        "/runs/{run_id}/verify", Scope.RUNS_READ, "Check again what a run claims", VERIFICATION, fails=[404, 503]
    )
    async def verification(request: Request, run_id: RunIdPath) -> Verification:
        """Offline: its log, citations, quotes, files, pages and proof, from what was recorded alone."""
        found = await fabric.find(run_id, by=who_asks(request))
        return await verify(found)
