"""The built-in configuration: a local model and the built-in specialists."""

from collections.abc import Mapping
from typing import Any, Final

from agent_fabric.config.schema.fabric import FabricConfig

PHASES: Final[Mapping[str, tuple[str, ...]]] = {
    "engineering": ("plan", "implement", "test", "review", "iterate"),
    "research": ("scope", "search", "screen", "extract", "synthesize"),
    "enterprise_research": ("recall", "scope", "search", "screen", "extract", "synthesize"),
    "sysadmin": ("look", "find the cause", "act", "verify"),
}
"""The phases that the prompts of built-in packs speak of."""


def _words(text: str) -> list[str]:
    return text.split(", ")


def default_settings() -> dict[str, Any]:
    """Return the built-in entries in the shape of a file, for other layers to be merged over."""
    return {
        "models": {
            "fast": {"backend": "auto"},
            "quality": {"backend": "auto"},
        },
        "specialists": {
            "engineering": {
                "description": "Builds, tests, repairs and reviews software in the run's workspace.",
                "keywords": _words(
                    "build, code, implement, develop, program, script, function, class, module, library, api, "
                    "endpoint, cli, test, bug, fix, debug, error, traceback, refactor, compile, deploy, git, "
                    "repository, database, sql, python, javascript, typescript, rust"
                ),
                "capabilities": ["software"],
                "workflow": [*PHASES["engineering"]],
            },
            "research": {
                "description": "Searches the web, reads sources and writes reports whose citations can be checked.",
                "keywords": _words(
                    "research, literature, systematic review, literature review, meta analysis, survey, study, "
                    "studies, evidence, cite, citation, sources, primary source, paper, publication, compare, "
                    "comparison, summarize, summarise, overview, state of the art, find out, fact check, on the web, "
                    "search the web, what is known"
                ),
                "capabilities": ["web_research"],
                "workflow": [*PHASES["research"]],
            },
            "enterprise_research": {
                "description": "Research that begins with what earlier runs of this installation have found.",
                "keywords": _words(
                    "previous run, earlier run, past run, across runs, cross run, run history, previous result, "
                    "earlier result, previous findings, what did we, what do we know, have we, did we, last time, our "
                    "own, our company, our knowledge, internal knowledge, institutional, in house"
                ),
                "capabilities": ["web_research", "recall"],
                "workflow": [*PHASES["enterprise_research"]],
            },
            "sysadmin": {
                "description": "Looks after machines of the fleet: finds causes, changes as little as needed, checks.",
                "keywords": _words(
                    "sysadmin, system administrator, fleet, nodes, on the node, all machines, node_list, "
                    "on every machine, on our servers"
                ),
                "capabilities": ["operations"],
                "workflow": [*PHASES["sysadmin"]],
                "max_steps": 15,
            },
            "review": {
                "description": "Reviews a change that is given as a diff; only where it is named.",
            },
            "assistant": {
                "description": "Talks with a person: answers questions, looks into files, runs commands, reads pages.",
            },
        },
    }


def default_config() -> FabricConfig:
    """Return the configuration of a fresh installation."""
    return FabricConfig.model_validate(default_settings())
