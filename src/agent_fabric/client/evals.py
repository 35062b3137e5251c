"""Evaluations at a server: start them, read them, go on with them, end them."""

from collections.abc import Sequence
from typing import Any

from agent_fabric.application.ports.evals import EvalRecord
from agent_fabric.client.transport import Named, Resource
from agent_fabric.domain.errors import EvalNotFound
from agent_fabric.domain.evals.definition import EvalDefinition, plain_definition
from agent_fabric.domain.evals.summary import EvalSummary
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.wire.evals import EVAL, EVAL_LIST

_BASE = "/api/v1/evals"
_path = Named(_BASE, EvalNotFound, "There is no evaluation {!r}", "See them with `fabric eval list`.")


class Evals(Resource):
    """The evaluations of a server. Each is named by its id, the beginning of it, or else its name."""

    async def start(self, definition: EvalDefinition, *, visibility: Visibility | None = None) -> EvalSummary:
        """Start an evaluation and do not wait for it.

        Raises:
            EvalInvalid: something in it is wrong.
            ConfigError: the server has no such model.
            RecruitError: the server has no such pack.
        """
        body: dict[str, Any] = plain_definition(definition)
        return await self._post(EVAL.load, _BASE, body if visibility is None else {**body, "visibility": visibility})

    async def list(self, *, limit: int = 20) -> Sequence[EvalRecord]:
        """Return the newest evaluations that we may see, newest first."""
        return await self._get(EVAL_LIST.load, _BASE, {"limit": min(limit, 200)})

    async def show(self, name: str) -> EvalSummary:
        """Return what an evaluation has shown so far.

        Raises:
            EvalNotFound: there is none, or more than one.
        """
        return await self._get(EVAL.load, _path(name))

    async def newest(self, *, own: bool = False) -> EvalSummary:
        """Return the evaluation that was started last; of our own ones if asked.

        Raises:
            EvalNotFound: there is none at all.
        """
        return await self._get(EVAL.load, f"{_BASE}/newest", {"own": own or None})

    async def resume(self, name: str, *, retry_failed: bool = False) -> EvalSummary:
        """Go on with an evaluation and do not wait for it.

        Raises:
            EvalHeld: another process works on it.
        """
        return await self._post(EVAL.load, _path(name, "/resume"), {"retry_failed": retry_failed})

    async def cancel(self, name: str, *, reason: str = "") -> EvalSummary:
        """End an evaluation and its runs; return how it stands then."""
        return await self._post(EVAL.load, _path(name, "/cancel"), {"reason": reason})
