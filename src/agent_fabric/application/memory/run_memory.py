"""What runs do with memory."""

from typing import NamedTuple

from agent_fabric.application.memory.propose_fact import ProposeFact
from agent_fabric.application.memory.search_memory import SearchMemory


class RunMemory(NamedTuple):
    """The use cases that the tools of runs call."""

    search: SearchMemory
    propose: ProposeFact
