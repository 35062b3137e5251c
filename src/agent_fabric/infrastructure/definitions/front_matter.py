"""Reads Markdown files that begin with front matter: YAML between two lines `---`."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from agent_fabric.config.formats.syntax import SyntaxProblem

_FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\r?\n(.*?\r?\n)?---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


class FrontMatter(NamedTuple):
    """A file that was taken apart."""

    fields: Mapping[Any, Any]
    body: str


def split_front_matter(text: str, *, required: bool = True) -> FrontMatter:
    """Take a file apart.

    Raises:
        SyntaxProblem: it has no front matter though that is required, or what stands there are no fields.
    """
    found = _FRONT_MATTER.match(text)
    if found is None:
        if required or text.startswith("---"):
            raise SyntaxProblem("it must begin with front matter: a line `---`, fields, and a line `---`")
        return FrontMatter({}, text.strip())
    from agent_fabric.config.formats.yaml_text import parse_yaml  # noqa: PLC0415 - costs 50 ms

    fields = parse_yaml(found[1] or "") or {}
    if not isinstance(fields, Mapping):
        raise SyntaxProblem("the front matter must be fields with values")
    return FrontMatter(fields, text[found.end() :].strip())
