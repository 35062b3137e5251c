"""Finds what the server's settings refer to that does not exist. The server starts all the same."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.application.ports.workflows import WorkflowCatalogue
from agent_fabric.config.schema.automation import WebhookConfig
from agent_fabric.config.schema.observability import AlertConfig
from agent_fabric.config.secret_references import reference_in
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, FabricError
from agent_fabric.domain.observability.findings import HealthFinding, Level

_LOCAL_SOURCES = frozenset({"env", "file"})
"""Where secrets can be looked up without a request to another machine."""


@dataclass(frozen=True, slots=True)
class FindMissingPrerequisites:
    """Use case: report secrets of webhooks and alerts that are not set, and workflows of webhooks that cannot start."""

    webhooks: Mapping[str, WebhookConfig]
    alerts: Sequence[AlertConfig]
    resolve: Resolve
    open_workflows: Callable[[], WorkflowCatalogue]

    async def __call__(self) -> list[HealthFinding]:
        """Return a warning for each."""
        secrets = [await self._unset(setting, reference) for setting, reference in self._secrets()]
        return [*filter(None, secrets), *await asyncio.to_thread(self._workflows)]

    def _secrets(self) -> Iterator[tuple[str, str]]:
        for name, webhook in self.webhooks.items():
            yield f"webhooks.{name}", webhook.secret
        for alert in self.alerts:
            if alert.enabled and alert.secret is not None:
                yield f"alerts.{alert.name}", alert.secret

    async def _unset(self, setting: str, reference: str) -> HealthFinding | None:
        found = reference_in(reference)
        if found is None or found.source not in _LOCAL_SOURCES:
            return None
        try:
            await self.resolve(reference)
        except ConfigError as problem:
            fix = f"Set {found.name} where `fabric serve` is started." if found.source == "env" else problem.hint
            return _warning(setting, f"`{setting}.secret`: {problem.message}", fix)
        return None

    def _workflows(self) -> list[HealthFinding]:
        wanted = {name: each.workflow for name, each in self.webhooks.items() if each.workflow is not None}
        if not wanted:
            return []
        catalogue, findings = self.open_workflows(), []
        for name, workflow in wanted.items():
            try:
                catalogue.get(workflow)
            except FabricError as problem:
                setting = f"webhooks.{name}"
                findings.append(_warning(setting, f"`{setting}.workflow`: {problem.message}", problem.hint))
        return findings


def _warning(setting: str, text: str, fix: str) -> HealthFinding:
    return HealthFinding(about=setting.partition(".")[0], level=Level.WARN, text=text, fix=fix)
