"""Changes a model in TOML, line by line, so that comments stay."""

import json
import re

from agent_fabric.config.edit.change import CannotEdit, Change

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TEXT = r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'"


def with_model(text: str, key: str, change: Change) -> str:
    """Return the text with the change made; a valid text is given.

    Raises:
        CannotEdit: a setting to change is written in an unusual way.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    found = text.splitlines(keepends=True)
    header = re.compile(rf"\s*\[\s*models\s*\.\s*(?:{re.escape(key)}|\"{re.escape(key)}\"|'{re.escape(key)}')\s*\]")
    begin = next((number for number, line in enumerate(found) if header.match(line)), None)
    if begin is None:
        glue = "" if not text or text.endswith("\n") else newline
        gap = newline if text.strip() else ""
        return text + glue + gap + lines(key, change).replace("\n", newline)
    end = next((n for n in range(begin + 1, len(found)) if found[n].lstrip().startswith("[")), len(found))
    if not found[begin].endswith("\n"):
        found[begin] += newline
    body = found[begin + 1 : end]
    for name, value in change.items():
        body = _with_setting(body, name, value, newline)
    return "".join([*found[: begin + 1], *body, *found[end:]])


def lines(key: str, change: Change) -> str:
    """Return what a person would write."""
    shown = key if _BARE.fullmatch(key) else json.dumps(key)
    return f"[models.{shown}]\n" + "".join(f"{name} = {_quoted(text)}\n" for name, text in change.items() if text)


def _with_setting(body: list[str], name: str, value: str | None, newline: str) -> list[str]:
    line_of = re.compile(rf"(\s*{name}\s*=\s*)({_TEXT})(\s*(?:#.*)?)$", re.DOTALL)
    for number, line in enumerate(body):
        if not re.match(rf"\s*[\"']?{name}[\"']?\s*=", line):
            continue
        matched = line_of.match(line)
        if matched is None:
            raise CannotEdit(f"`{name}` is written in an unusual way")
        changed = [] if value is None else [matched[1] + _quoted(value) + matched[3]]
        return [*body[:number], *changed, *body[number + 1 :]]
    return body if value is None else [f"{name} = {_quoted(value)}{newline}", *body]


def _quoted(text: str) -> str:
    # JSON's escapes are TOML's, but for the character DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
