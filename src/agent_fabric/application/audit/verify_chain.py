"""Checks that the record of all runs is whole."""

from dataclasses import dataclass, replace

from agent_fabric.application.ports.audit import AuditChain, ChainReport


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
                f"{report.unknown_key} entries of the chain were made with another key, so they cannot be "
                "verified; if other users work in this folder, or your key was lost, check the rest with --shared"
            )
        return replace(report, damage=tuple(damage))
