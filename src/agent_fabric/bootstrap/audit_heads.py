"""Joins what sends heads of the audit chain elsewhere, and what reads the one that is kept here."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agent_fabric.application.audit.send_head import EVERY_S, SendHead
from agent_fabric.application.ports.audit import AuditChain, ChainReport, HeadDamaged, HeadPlace
from agent_fabric.application.ports.operations import OperationsLog
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.schema.audit import AuditConfig
from agent_fabric.infrastructure.audit.audit_head_file import audit_head_file
from agent_fabric.infrastructure.audit.audit_head_places import HeadLines, HeadWebhook, Syslog
from agent_fabric.infrastructure.audit.audit_key_file import audit_key
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.observability.alert_webhook import AlertWebhook


def missing_record(root: Path) -> ChainReport | None:
    """Report that a fabric folder has no store any more, although a head of it was kept; None if none was."""
    heads = audit_head_file(root, audit_key(os.environ), os.environ)
    try:
        kept = None if heads is None else heads.read()
    except HeadDamaged:
        return None
    if kept is None or not kept.position:
        return None
    said = (
        f"the store is gone: {kept.position} entries of its chain were recorded outside of it; restore it with "
        "`fabric db restore`"
    )
    return ChainReport(entries=0, runs=0, removed=0, head="", damage=(said,), kept_head=kept.hash.hex())


@asynccontextmanager
async def head_sender(chain: AuditChain, root: Path, config: AuditConfig, resolve: Resolve) -> AsyncIterator[SendHead]:
    """Return the use case that sends heads to where the configuration says."""
    clock = SystemClock()
    addresses = {place: config.secret for place in config.head_to if "://" in place}
    webhook = AlertWebhook(addresses, resolve, clock, setting="audit")

    def place(name: str) -> HeadPlace:
        if name == "syslog":
            return Syslog()
        return HeadWebhook(name, webhook) if "://" in name else HeadLines(Path(name))

    try:
        places = [place(name) for name in config.head_to]
        yield SendHead(chain, places, clock, str(root))
    finally:
        await webhook.aclose()


async def send_head_once(chain: AuditChain, root: Path, config: AuditConfig, resolve: Resolve) -> Sequence[str]:
    """Send the newest head to every place; return what went wrong."""
    if not config.head_to:
        return ()
    async with head_sender(chain, root, config, resolve) as send:
        return await send()


async def send_heads(chain: AuditChain, root: Path, config: AuditConfig, resolve: Resolve, log: OperationsLog) -> None:
    """Send each new head, for as long as a server runs."""
    clock = SystemClock()
    async with head_sender(chain, root, config, resolve) as send:
        while True:
            for problem in await send():
                log.warning("audit_head_not_sent", message=problem)
            await clock.sleep(EVERY_S)
