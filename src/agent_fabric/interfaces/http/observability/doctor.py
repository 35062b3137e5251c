"""Whether a task could run at the server, and what to do about what is in its way."""

import asyncio
import os

from agent_fabric.application.observability.check_health import HealthFinding, Level, can_run
from agent_fabric.bootstrap.local import policy_of
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.bootstrap.services import service_findings
from agent_fabric.bootstrap.store_place import configured_address
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.wire.operations import DIAGNOSIS, Diagnosis


def add_doctor(routes: Routes, fabric: ServerFabric) -> None:
    """Add the route. It is for administrators: it tells about the machine."""

    @routes.get("/api/v1/doctor", Scope.ADMIN, "Check whether a task could run", DIAGNOSIS)
    async def doctor() -> Diagnosis:
        """The same as `fabric doctor --json` at the server's own terminal. Looks only."""
        from agent_fabric.bootstrap.database import store_findings  # noqa: PLC0415 - few servers are ever asked
        from agent_fabric.bootstrap.models_here import listing  # noqa: PLC0415 - as above
        from agent_fabric.interfaces.views import examination as look  # noqa: PLC0415 - as above

        root, config = fabric.records.layout.root, fabric.config
        findings = [
            await asyncio.to_thread(look.python_finding),
            HealthFinding(about="configuration", level=Level.OK, text="valid; as it was when the server started"),
            *look.policy_findings(policy_of(fabric.records, config)),
            *await asyncio.to_thread(store_findings, root, configured_address(config.store, os.environ)),
            await asyncio.to_thread(look.encryption_finding, root, config),
            *await fabric.find_missing_prerequisites(),
            *await fabric.find_answering_keys(),
            *await service_findings(config, root),
        ]
        try:
            findings += await look.model_findings(root, config, listing(config, fabric.models.stack))
        except ConfigError as problem:
            findings.append(HealthFinding(about="models", level=Level.FAIL, text=problem.message, fix=problem.hint))
        return Diagnosis(can_run(findings), findings)
