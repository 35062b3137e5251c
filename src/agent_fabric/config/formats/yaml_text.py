"""Reads YAML without the parts that could hurt: no aliases, no objects, no depth without end."""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

import yaml

from agent_fabric.config.formats.syntax import SyntaxProblem, TwiceProblem

_MAX_DEPTH: Final = 64
_SafeLoader: Final = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"


class _Loader(_SafeLoader):  # type: ignore[valid-type,misc]  # one of two classes
    """Reads numbers by version 1.2, as workflow files do: `0777` is 777, and `1:30` and `1_000` are text."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, form) for tag, form in forms if tag not in {_INT, _FLOAT}]
        for first, forms in _SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(_INT, re.compile(r"[-+]?[0-9]+$"), [*"-+0123456789"])
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
    ),
    [*"-+.0123456789"],
)
_Loader.add_constructor(_INT, lambda _, node: int(node.value))


def parse_yaml(text: str) -> Any:
    """Return the value that `text` holds, None if it holds nothing.

    Raises:
        SyntaxProblem: not YAML, more than one document, a key twice in one mapping, an alias, a tag for anything but
            plain data, or nested too deeply.
    """
    try:
        _refuse_dangers(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _refuse_duplicates(node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise problem_of(error) from None
    except (ValueError, TypeError, KeyError, AttributeError):  # how the constructors fail on values like 2024-02-31
        raise SyntaxProblem("it contains a value that cannot be what it looks like") from None


def _refuse_dangers(text: str) -> None:
    """Look at the text event by event, before anything is built from it.

    An alias lets a small file stand for gigabytes; deep nesting makes the recursive builder overflow.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        match event:
            case yaml.AliasEvent():
                raise SyntaxProblem("aliases are not supported: write the value out", line=line, column=column)
            case yaml.CollectionStartEvent():
                depth += 1
                if depth > _MAX_DEPTH:
                    raise SyntaxProblem("it is nested too deeply", line=line, column=column)
            case yaml.CollectionEndEvent():
                depth -= 1
            case _:
                pass


def _refuse_duplicates(root: yaml.Node) -> None:
    for mapping in _mappings(root):
        seen: set[tuple[str, str]] = set()
        for key, _ in mapping.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (key.tag, key.value) in seen:
                raise TwiceProblem(key.value, line=key.start_mark.line + 1, column=key.start_mark.column + 1)
            seen.add((key.tag, key.value))


def _mappings(node: yaml.Node) -> Iterator[yaml.MappingNode]:
    if isinstance(node, yaml.MappingNode):
        yield node
        for key, value in node.value:
            yield from _mappings(key)
            yield from _mappings(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _mappings(item)


def problem_of(error: yaml.YAMLError, text: str = "") -> SyntaxProblem:
    """Return what the parser says about a text, with its place; that of a wrong character needs the text itself."""
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position] if isinstance(error.position, int) else ""
        return SyntaxProblem(f"it contains the character {error.character!r}", line=before.count("\n") + bool(before))
    if not isinstance(error, yaml.MarkedYAMLError):
        return SyntaxProblem(str(error).partition("\n")[0])
    message = error.problem or error.context or "it cannot be read"
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return SyntaxProblem(message)
    return SyntaxProblem(message, line=mark.line + 1, column=mark.column + 1)
