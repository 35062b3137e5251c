"""The parameters of an editor's requests, checked: a prompt, a working folder, the name of a session."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from agent_fabric.domain.chat.sessions import MAX_MESSAGE_CHARS
from agent_fabric.domain.runs.task import Quoted
from agent_fabric.interfaces.acp.peer import INVALID_PARAMS, RpcError

MAX_BLOCKS = 200
"""Of one prompt."""


class Prompt(NamedTuple):
    """What a person has said, with what their editor added."""

    text: str
    quotes: Quoted | None
    """Which of it are their own words; None: all of it is."""


def text_param(params: Mapping[str, Any], name: str) -> str:
    """Return a parameter that is text.

    Raises:
        RpcError: it is missing, or no text.
    """
    value = params.get(name)
    if not isinstance(value, str) or not value or "\0" in value:
        raise RpcError(INVALID_PARAMS, f"{name} is missing, or no text")
    return value


def folder_param(params: Mapping[str, Any]) -> Path:
    """Return the working folder.

    Raises:
        RpcError: it is no absolute path.
    """
    folder = Path(text_param(params, "cwd"))
    if not folder.is_absolute():
        raise RpcError(INVALID_PARAMS, "cwd is not an absolute path")
    return folder


def prompt_param(params: Mapping[str, Any]) -> Prompt:
    """Return a prompt as a message of a session.

    Links to files stay links: the run reads the file, under the rules for its tools. What else an editor puts into a
    prompt are not the person's words, so it counts as untrusted.

    Raises:
        RpcError: it has a part that is not understood, or is too long.
    """
    blocks = params.get("prompt")
    if not isinstance(blocks, list) or len(blocks) > MAX_BLOCKS or not all(isinstance(each, dict) for each in blocks):
        raise RpcError(INVALID_PARAMS, f"prompt is no list of at most {MAX_BLOCKS} parts")
    own: list[str] = []
    added: list[str] = []
    origins: list[str] = []
    for block in blocks:
        match block.get("type"):
            case "text":
                own.append(str(block.get("text", "")))
            case "resource_link":
                own.append(_mention(str(block.get("uri", "")), str(block.get("name", ""))))
            case "resource" if isinstance(block.get("resource"), dict) and "text" in block["resource"]:
                uri = str(block["resource"].get("uri", ""))
                own.append(_mention(uri, ""))
                added.append(f"{_one_line(uri)}:\n{block['resource']['text']}")
                origins.append(f"editor: {_one_line(uri)}"[:200])
            case kind:
                raise RpcError(INVALID_PARAMS, f"A part of the type {str(kind)[:40]!r} cannot be used in a prompt")
    words = "".join(own).strip()
    text = "\n\n".join([words, *added]).encode("utf-8", "replace").decode()
    if len(text) > MAX_MESSAGE_CHARS:
        raise RpcError(INVALID_PARAMS, f"The prompt is longer than {MAX_MESSAGE_CHARS:,} characters")
    if not words:
        raise RpcError(INVALID_PARAMS, "The prompt is empty")
    return Prompt(text, Quoted(own_words=words, untrusted=tuple(origins), private=tuple(origins)) if origins else None)


def _mention(uri: str, name: str) -> str:
    shown = _one_line(uri)
    return f"`{shown}`" if not name or shown.endswith(name) else f"{name} (`{shown}`)"


def _one_line(uri: str) -> str:
    """Return the path of a file, or the address of something else, on one line."""
    parts = urlsplit(uri)
    path = unquote(parts.path) if parts.scheme == "file" else uri
    fragment = f"#{parts.fragment}" if parts.scheme == "file" and parts.fragment else ""
    return " ".join(f"{path}{fragment}".split())[:500]
