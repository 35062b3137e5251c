"""A proxy for each run whose commands may use the network."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from agent_fabric.config.schema.sandbox import EgressConfig
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.sandbox.egress.addresses import Lookup, system_lookup
from agent_fabric.infrastructure.sandbox.egress.policy import EgressRecord, EgressRefusal, shell_limits, shell_policy
from agent_fabric.infrastructure.sandbox.egress.proxy import Connect, EgressProxy, connect

_MAX_NAMED = 5


class RunProxies:
    """Makes the way out of a run's box when the box is made, and ends it with the box.

    `on_refused` hears of each kind of refusal once for each run, and must neither block nor raise.
    """

    def __init__(
        self,
        config: EgressConfig,
        *,
        on_refused: Callable[[RunId, EgressRefusal], None] | None = None,
        lookup: Lookup = system_lookup,
        connect: Connect = connect,
    ) -> None:
        self._config = config
        self._on_refused = on_refused
        self._lookup = lookup
        self._connect = connect
        self._proxies: dict[RunId, tuple[EgressProxy, asyncio.Task[EgressProxy]]] = {}

    def socket_for(self, run_id: RunId) -> Path:
        """Return the unix socket for a run's box, the same one as long as it lives. Never blocks.

        It can be connected to at once; a loop must be running, which serves it.

        Raises:
            OSError: it cannot be made.
        """
        known = self._proxies.get(run_id)
        if known is not None:
            return known[0].socket_path
        heard = self._on_refused
        proxy = EgressProxy(
            shell_policy(self._config),
            limits=shell_limits(self._config),
            on_refused=None if heard is None else lambda refusal: heard(run_id, refusal),
            lookup=self._lookup,
            connect=self._connect,
        )
        proxy.listen()
        self._proxies[run_id] = proxy, asyncio.get_running_loop().create_task(proxy.__aenter__())
        return proxy.socket_path

    def record_of(self, run_id: RunId) -> EgressRecord | None:
        """Return what went out of a run's box so far; None if it has no way out."""
        known = self._proxies.get(run_id)
        return None if known is None else known[0].record

    def hosts_reached(self, run_id: RunId) -> str:
        """Name the hosts that commands of a run have been connected with; empty: none."""
        record = self.record_of(run_id)
        return "" if record is None else ", ".join(list(record.uses)[:_MAX_NAMED])

    async def close(self, run_id: RunId) -> None:
        """End a run's way out, and every connection through it."""
        known = self._proxies.pop(run_id, None)
        if known is not None:
            proxy, starting = known
            await asyncio.gather(starting, return_exceptions=True)
            await proxy.__aexit__()

    async def aclose(self) -> None:
        """End all of them."""
        for run_id in list(self._proxies):
            await self.close(run_id)
