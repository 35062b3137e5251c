"""Cuts what a tool gave back so that the model can read it."""

import json
from collections.abc import Mapping
from typing import Any, Final

from agent_fabric.domain.tools.json_schema import MAX_DEPTH, too_deep

_PLAIN: Final = json.JSONEncoder(ensure_ascii=False)
"""Made once: making one takes longer than using it."""


def plain(output: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return an output as JSON has it, and as text: what JSON lacks (paths, dates, NaN) becomes text."""
    odd = False

    def as_text(value: object) -> str:
        nonlocal odd
        odd = True
        return str(value)

    try:
        text = _PLAIN.encode(output)
    except TypeError:
        text = json.dumps(output, ensure_ascii=False, default=as_text)
    if not (odd or "NaN" in text or "Infinity" in text):
        return output, text
    plain: Mapping[str, Any] = json.loads(text, parse_constant=str)
    return plain, json.dumps(plain, ensure_ascii=False)


def words_in(output: Any) -> str:
    """Return all texts of an output, one after the other, as a person would read them."""
    found: list[str] = []
    waiting = [output]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found.append(value)
        elif value.__class__ is dict or isinstance(value, Mapping):  # the first is quick
            waiting.extend(reversed(list(value.values())))
        elif isinstance(value, list | tuple):
            waiting.extend(reversed(value))
    return "\n".join(found)


def fit(output: Mapping[str, Any], whole: str, limit: int) -> tuple[Mapping[str, Any], str]:
    """Cut an output so that the model can read it; `whole` is its JSON text.

    Return what is shown, and the whole if something was cut, else nothing.
    """
    deep = len(whole) > MAX_DEPTH and too_deep(output, whole)
    if len(whole) <= limit and not deep:
        return output, ""
    texts = {key: value for key, value in output.items() if isinstance(value, str)}
    rest = len(json.dumps({**output, **dict.fromkeys(texts, "")}, ensure_ascii=False))
    if rest > limit // 2 or deep:
        return {
            "truncated": f"{len(whole)} characters; the whole is in the run's log",
            "start": whole[: limit // 2],
        }, whole
    # The short texts stay whole; the long ones share what is left. JSON's escapes count.
    left = limit - rest
    shown = dict(output)
    lengths = {key: len(json.dumps(value, ensure_ascii=False)) for key, value in texts.items()}
    for number, key in enumerate(sorted(texts, key=lengths.__getitem__)):
        share = left // (len(texts) - number)
        if lengths[key] > share:
            shown[key] = _cut(texts[key], max(share * len(texts[key]) // lengths[key] - _NOTE, 0))
        left -= min(lengths[key], share)
    return shown, whole


_NOTE = 80
"""Room for the note about what was cut."""


def _cut(text: str, limit: int) -> str:
    """Keep the beginning and the end, where the news usually is."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n…[{len(text) - 2 * half} characters cut; the whole is in the run's log]…\n{text[-half:]}"
