"""The enterprise research pack: research that begins with what earlier runs have found."""

from agent_fabric.application.ports.runs import RunCatalogue
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack
from agent_fabric.infrastructure.packs.prompts.enterprise_research import (
    SYSTEM_PROMPT_ENTERPRISE_RESEARCH,
    SYSTEM_PROMPT_ENTERPRISE_RESEARCH_OFFLINE,
)
from agent_fabric.infrastructure.packs.research import ResearchDesk
from agent_fabric.infrastructure.tools.recall import CROSS_RUN_SEARCH, CrossRunSearch


def build_enterprise_research_pack(desk: ResearchDesk, catalogue: RunCatalogue) -> BaseSpecialistPack:
    """Return a researcher who also looks into earlier runs."""
    online, offline = SYSTEM_PROMPT_ENTERPRISE_RESEARCH, SYSTEM_PROMPT_ENTERPRISE_RESEARCH_OFFLINE
    recall = (CROSS_RUN_SEARCH, CrossRunSearch(catalogue, desk.snapshots, desk.clock))
    return desk.pack(online if desk.network_allowed else offline, also=(recall,))
