"""Reads YAML and JSON, and tells where everything stands."""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from agent_fabric.config.formats.json_text import parse_json
from agent_fabric.config.formats.syntax import SyntaxProblem, TwiceProblem
from agent_fabric.infrastructure.definitions.json_spots import json_spots, second_key
from agent_fabric.infrastructure.definitions.spots import Refused, Spots
from agent_fabric.infrastructure.definitions.yaml_spots import read_yaml

_NEEDS_QUOTES: Final = re.compile(r"""(?:^|[:\-\[,]\s+)\{\{""")


class Parsed(NamedTuple):
    """A value and where its parts stand."""

    value: Any
    spots: Callable[[], Spots]
    """A function, because a sound file never needs them."""


def parse_with_spots(text: str, suffix: str) -> Parsed:
    """Return the value that a text holds: JSON for `.json`, else YAML.

    Raises:
        SyntaxProblem: it is not, a key twice in one mapping, an alias, a tag, nested too deeply.
    """
    if suffix == ".json":
        try:
            return Parsed(parse_json(text), lambda: json_spots(text))
        except TwiceProblem as problem:
            raise Refused(problem.message, second_key(text)) from None
    value, spots = read_yaml(text)
    return Parsed(value, lambda: spots)


def hint_for(problem: SyntaxProblem, text: str, suffix: str) -> str:
    """Say what is probably meant where a text cannot be read."""
    if suffix == ".json":
        return "" if isinstance(problem, Refused) else _JSON
    lines = text.splitlines()
    wrong = lines[problem.line - 1] if 0 < problem.line <= len(lines) else ""
    before = lines[problem.line - 2] if 1 < problem.line <= len(lines) + 1 else ""
    if any(_NEEDS_QUOTES.search(each) for each in (wrong, before)):
        return 'Put quotes around a value that begins with {{, as in: text: "{{ inputs.text }}"'
    if "\t" in wrong[: len(wrong) - len(wrong.lstrip())]:
        return "Indent with spaces; YAML does not take tabs."
    return "" if isinstance(problem, Refused | TwiceProblem) else _YAML


_JSON: Final = "JSON takes double quotes, no comments, and no comma after the last item."
_YAML: Final = "YAML is `key: value`, indented with spaces; put quotes around text with : or # or {{ in it."
