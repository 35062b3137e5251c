"""Which words of a task ask for which capability."""

from collections.abc import Mapping
from typing import Final


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


CAPABILITY_KEYWORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "software": _words(
        "implement, code, coding, program, script, function, module, library, api, endpoint, cli, app, prototype, "
        "unit test, bug, debug, refactor, compile, python, javascript, typescript, rust"
    ),
    "web_research": _words(
        "research, systematic review, literature, survey, evidence, citation, cite, sources, state of the art, "
        "find out, compare, on the web, papers"
    ),
    "recall": _words(
        "previous runs, earlier runs, past runs, cross run, what did we, last time, our knowledge, institutional"
    ),
}
"""A specialist lists the capabilities it has; a task that asks for more than one of them has calls for a task force."""

AMBIGUOUS_ON_PROJECTS: Final = frozenset(
    _words(
        "summarize, summarise, overview, compare, comparison, survey, study, evidence, sources, paper, find out, "
        "what is known, what did we, what do we know, have we, did we, last time, our own, our company, our knowledge, "
        "in house, previous result, earlier result"
    )
)
"""Keywords that are also said about files: with a project folder they speak for no other specialist."""
