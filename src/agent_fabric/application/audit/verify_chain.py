"""Checks that the record of all runs is whole, or accepts it in place of the one that was expected."""

from dataclasses import replace

from agent_fabric.application.ports.audit import ActLog, AuditChain, ChainReport
from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.plural import count_of


@dataclass(frozen=True, slots=True)
class VerifyChain:
    """Use case: recompute the chain over all runs, and hold it against what is expected of it."""

    chain: AuditChain

    async def __call__(self, *, expect: str = "", shared: bool = False) -> ChainReport:
        """Report what the chain says.

        `expect` is a head that was noted down before. Unless the folder is `shared`, entries with another key are
        damage.
        """
        report = await self.chain.verify()
        damage = list(report.damage)
        if expect and not await self.chain.holds(expect):
            damage.append(f"no entry of the chain has the hash {expect}")
        if report.unknown_key and not shared:  # or a change would go unnoticed if only another key is named with it
            damage.append(
                f"{count_of(report.unknown_key, 'entry', 'entries')} of the chain, made with another key, cannot be "
                "verified; if other users work in this folder, or your key was lost, check the rest with --shared"
            )
        return replace(report, damage=tuple(damage))


@dataclass(frozen=True, slots=True)
class AcceptHead:
    """Use case: expect the chain that is there now, and record who said so and which head was expected before."""

    chain: AuditChain
    acts: ActLog

    async def __call__(self, act: Act) -> None:
        """Accept the chain because of an act.

        Raises:
            StoreFull, StoreUnavailable: it cannot be recorded.
        """
        before = await self.chain.accept()
        said = [act.detail] if act.detail else []
        if before:
            said.append(f"instead of the record with head {before}")
        await self.acts.record(replace(act, detail=", ".join(said)))
