"""How the researcher works who also knows the earlier runs."""

from agent_fabric.infrastructure.packs.prompts.research import SYSTEM_PROMPT_RESEARCH, SYSTEM_PROMPT_RESEARCH_OFFLINE

_EARLIER_RUNS = """
Earlier runs: look into them first. Call cross_run_search with a few words of the question; it returns the tasks and \
results of earlier runs of this organisation. Say which of them you build on. An earlier result can be out of date or \
wrong: check what matters. Cite an earlier run with the url that cross_run_search gave, such as run:1234, and a quote \
from its summary. A page that an earlier run has read must be fetched again before you cite it.
memory_search looks up documents of this organisation. Cite a passage with its url, such as memory:12ab/0-1.
"""

SYSTEM_PROMPT_ENTERPRISE_RESEARCH = SYSTEM_PROMPT_RESEARCH + _EARLIER_RUNS
SYSTEM_PROMPT_ENTERPRISE_RESEARCH_OFFLINE = SYSTEM_PROMPT_RESEARCH_OFFLINE + _EARLIER_RUNS
