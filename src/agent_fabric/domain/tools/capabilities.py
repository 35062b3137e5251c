"""The one table of capabilities: what a name opens for agents, for the policy, and which words of a task ask for it."""

from collections.abc import Iterable, Mapping
from typing import Final

from agent_fabric.domain.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One thing that can be allowed, offered or asked for."""

    description: str
    tools: tuple[str, ...] = ()
    """The tools that an agent with it gets: these, and no others. Without any, agents cannot name it."""
    also: tuple[str, ...] = ()
    """Patterns of other tools that it covers where the policy limits what an agent may use."""
    keywords: tuple[str, ...] = ()
    """Words of a task that ask for it. A task that asks for more than one specialist has calls for a task force."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


ALL_CAPABILITIES: Final[Mapping[str, Capability]] = {
    "file-read": Capability(
        description="Reads, lists and searches the files of the workspace.",
        tools=("read_file", "list_files", "search_files"),
        also=("look", "file_ops"),
    ),
    "file-write": Capability(
        description="Writes and edits files of the workspace.",
        tools=("write_file", "edit_file"),
        also=("write_*", "edit_*", "file_ops"),
    ),
    "code-execution": Capability(
        description="Runs commands in the sandbox, as the policy allows.",
        tools=("shell",),
        also=("run_command", "python*"),
    ),
    "web-search": Capability(
        description="Searches the web.", tools=("web_search",), also=("fetch_url", "web_fetch", "fetch_*")
    ),
    "web-fetch": Capability(description="Reads pages of the web.", tools=("fetch_url",)),
    "evidence": Capability(
        description="Keeps quotes of pages that it has read, so that they can be checked.", tools=("record_evidence",)
    ),
    "browser": Capability(
        description="Uses a browser for pages that need one.",
        tools=("browser_open", "browser_read", "browser_click", "browser_type", "browser_screenshot"),
    ),
    "knowledge": Capability(
        description="Looks up documents and facts that people have added.", tools=("memory_search",)
    ),
    "learning": Capability(description="Proposes facts to remember, which a person reviews.", tools=("remember",)),
    "recall": Capability(
        description="Searches what earlier runs found.",
        tools=("cross_run_search",),
        keywords=_words(
            "previous runs, earlier runs, past runs, cross run, what did we, last time, our knowledge, institutional"
        ),
    ),
    "web-browse": Capability(
        description="Reads pages, with a browser or without.", also=("browser*", "browse_*", "fetch_url", "web_fetch")
    ),
    "research": Capability(
        description="Searches, reads, records and writes down.",
        also=_words(
            "web_search, fetch_url, web_fetch, cross_run_search, record_evidence, read_file, write_file, list_files"
        ),
    ),
    "memory": Capability(
        description="Recalls and remembers.", also=("cross_run_search", "recall*", "remember*", "memory_*")
    ),
    "mcp": Capability(description="Uses the tools of all tool servers.", also=("mcp__*",)),
    "node-command": Capability(description="Works on machines of the fleet.", also=("node_*", "*.*.*")),
    "messaging": Capability(description="Sends messages.", also=("send_*", "message_*")),
    "software": Capability(
        description="Writes and changes programs.",
        keywords=_words(
            "implement, code, coding, program, script, function, module, library, api, endpoint, cli, app, prototype, "
            "unit test, bug, debug, refactor, compile, python, javascript, typescript, rust"
        ),
    ),
    "web_research": Capability(
        description="Finds out and cites.",
        keywords=_words(
            "research, systematic review, literature, survey, evidence, citation, cite, sources, state of the art, "
            "find out, compare, on the web, papers"
        ),
    ),
}
"""Every name that a definition, the policy or the entry of a specialist may use."""

CAPABILITIES: Final = {name: each for name, each in ALL_CAPABILITIES.items() if each.tools}
"""Those that agents can name."""
CAPABILITY_KEYWORDS: Final = {name: ALL_CAPABILITIES[name].keywords for name in ("software", "web_research", "recall")}
"""Those that tasks ask for, in the order in which they are weighed."""

AMBIGUOUS_ON_PROJECTS: Final = frozenset(
    _words(
        "summarize, summarise, overview, compare, comparison, survey, study, evidence, sources, paper, find out, "
        "what is known, what did we, what do we know, have we, did we, last time, our own, our company, our knowledge, "
        "in house, previous result, earlier result"
    )
)
"""Keywords that are also said about files: with a project folder they speak for no other specialist."""

SERVER_PREFIX: Final = "mcp:"
"""`mcp:NAME` allows the tools of a configured tool server."""


def tools_of(capabilities: Iterable[str]) -> frozenset[str]:
    """Return the names of the tools that an agent with capabilities gets, without those of tool servers."""
    return frozenset(tool for name in capabilities if name in CAPABILITIES for tool in CAPABILITIES[name].tools)


def patterns_of(capabilities: Iterable[str]) -> tuple[str, ...]:
    """Return patterns of the tools that capabilities cover; an unknown capability covers none."""
    found = (ALL_CAPABILITIES[name] for name in capabilities if name in ALL_CAPABILITIES)
    return tuple(dict.fromkeys(tool for each in found for tool in (*each.tools, *each.also)))


def servers_of(capabilities: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the tool servers that capabilities allow."""
    names = (name.removeprefix(SERVER_PREFIX) for name in capabilities if name.startswith(SERVER_PREFIX))
    return tuple(dict.fromkeys(names))
