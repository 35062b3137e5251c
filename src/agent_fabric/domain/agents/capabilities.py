"""The one table from what an agent may do to the tools that it gets: these, and no others."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One thing that an agent can be allowed to do."""

    description: str
    tools: tuple[str, ...]


CAPABILITIES: Final[Mapping[str, Capability]] = {
    "file-read": Capability(
        description="Reads, lists and searches the files of the workspace.",
        tools=("read_file", "list_files", "search_files"),
    ),
    "file-write": Capability(description="Writes and edits files of the workspace.", tools=("write_file", "edit_file")),
    "code-execution": Capability(description="Runs commands in the sandbox, as the policy allows.", tools=("shell",)),
    "web-search": Capability(description="Searches the web.", tools=("web_search",)),
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
    "recall": Capability(description="Searches what earlier runs found.", tools=("cross_run_search",)),
}

SERVER_PREFIX: Final = "mcp:"
"""`mcp:NAME` allows the tools of a configured tool server."""


def tools_of(capabilities: Iterable[str]) -> frozenset[str]:
    """Return the names of the tools that capabilities allow, without those of tool servers."""
    return frozenset(tool for name in capabilities if name in CAPABILITIES for tool in CAPABILITIES[name].tools)


def servers_of(capabilities: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the tool servers that capabilities allow."""
    names = (name.removeprefix(SERVER_PREFIX) for name in capabilities if name.startswith(SERVER_PREFIX))
    return tuple(dict.fromkeys(names))
