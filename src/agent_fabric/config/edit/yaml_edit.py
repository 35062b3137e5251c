"""Changes a model in YAML, in place, so that comments, order and style of everything else stay."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import yaml

from agent_fabric.config.edit.change import CannotEdit, Change, applied

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NOT_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


class _Patch(NamedTuple):
    start: int
    end: int
    text: str


def with_model(text: str, key: str, change: Change) -> str:
    """Return the text with the change made; a valid text is given.

    Raises:
        CannotEdit: the place to change is written in an unusual way.
    """
    # The parser that is written in Python: its marks are known to count characters.
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    newline = "\r\n" if "\r\n" in text else "\n"
    patches = list(_patches(text, root, key, change))
    for patch in sorted(patches, reverse=True):
        text = text[: patch.start] + patch.text.replace("\n", newline) + text[patch.end :]
    return text


def lines(key: str, change: Change) -> str:
    """Return what a person would write."""
    return f"models:\n{_entry(key, change, '  ')}"


def _patches(text: str, root: yaml.Node | None, key: str, change: Change) -> Iterable[_Patch]:
    at_end = _Patch(len(text), len(text), ("" if not text or text.endswith("\n") else "\n") + lines(key, change))
    if root is None:
        return [at_end]
    if _is_flow(root):
        return [_rewritten(text, root, applied(_value(text, root), key, change))]
    models = _pair(root, "models")
    if models is None:
        if root.start_mark.column:
            raise CannotEdit("everything in it is indented")
        return [at_end]
    if _is_nothing(models[1]):
        return [_insertion(text, models[0], _entry(key, change, "  "))]
    if _is_flow(models[1]):
        changed = applied({"models": _value(text, models[1])}, key, change)
        return [_rewritten(text, models[1], changed["models"])]
    entry = _pair(models[1], key)
    indent = " " * models[1].start_mark.column
    if entry is None:
        return [_insertion(text, models[0], _entry(key, change, indent))]
    if _is_nothing(entry[1]):
        return [_insertion(text, entry[0], _settings(change, indent + "  "))]
    if _is_flow(entry[1]):
        changed = applied({"models": {key: _value(text, entry[1])}}, key, change)
        return [_rewritten(text, entry[1], changed["models"][key])]
    return _in_block(text, entry, change)


def _in_block(text: str, entry: tuple[yaml.Node, yaml.Node], change: Change) -> list[_Patch]:
    patches = []
    missing: dict[str, str | None] = {}
    for name, value in change.items():
        found = _pair(entry[1], name)
        if found is None:
            missing[name] = value
            continue
        if not isinstance(found[1], yaml.ScalarNode) or found[1].end_mark.line != found[0].start_mark.line:
            raise CannotEdit(f"`{name}` takes more than one line")
        if value is None:
            begin = text.rfind("\n", 0, found[0].start_mark.index) + 1
            patches.append(_Patch(begin, _line_end(text, found[0].start_mark.index), ""))
        else:
            patches.append(_Patch(found[1].start_mark.index, found[1].end_mark.index, _quoted(value)))
    added = _settings(missing, " " * entry[1].start_mark.column)
    return [*patches, _insertion(text, entry[0], added)] if added else patches


def _insertion(text: str, key: yaml.Node, lines: str) -> _Patch:
    """Put lines behind the one on which a key stands."""
    at = _line_end(text, key.start_mark.index)
    return _Patch(at, at, lines if text[:at].endswith("\n") else "\n" + lines)


def _pair(node: yaml.Node, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    if not isinstance(node, yaml.MappingNode):
        raise CannotEdit("it is no mapping")
    return next(((key, value) for key, value in node.value if key.value == name), None)


def _is_flow(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and bool(node.flow_style)


def _is_nothing(node: yaml.Node) -> bool:
    """Tell a key without a value from one whose value is written as `null` or `~`."""
    return isinstance(node, yaml.ScalarNode) and node.start_mark.index == node.end_mark.index


def _line_end(text: str, index: int) -> int:
    found = text.find("\n", index)
    return len(text) if found < 0 else found + 1


def _value(text: str, node: yaml.Node) -> Any:
    return yaml.safe_load(text[node.start_mark.index : node.end_mark.index])


def _rewritten(text: str, node: yaml.Node, value: Mapping[str, Any]) -> _Patch:
    """Write what stands within braces anew: JSON is YAML, too."""
    start, end = node.start_mark.index, node.end_mark.index
    if "#" in text[start:end] and "\n" in text[start:end]:
        raise CannotEdit("there are comments within braces")
    return _Patch(start, end, json.dumps(value, ensure_ascii=False))


def _entry(key: str, change: Change, indent: str) -> str:
    return f"{indent}{_quoted(key)}:\n{_settings(change, indent + '  ')}"


def _settings(change: Change, indent: str) -> str:
    return "".join(f"{indent}{name}: {_quoted(text)}\n" for name, text in change.items() if text is not None)


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    return json.dumps(text)
