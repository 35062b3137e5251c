"""Turns what a server answers into a tool's result: data that no one vouches for, of a size that can be kept."""

import base64
import binascii
import json
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent_fabric.infrastructure.tools.mcp.tool_conversion import clean_text

MAX_TEXT_CHARS: Final = 1_000_000
"""Of all texts in one answer together; what the model gets is cut further by the engine."""
MAX_ITEMS: Final = 200
MAX_SAVED_BYTES: Final = 5_000_000
"""A larger image or file is only described."""
_MAX_LABEL_CHARS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """An image, sound or file in an answer."""

    kind: str
    mime: str
    data: bytes | None
    """None: it was no valid base64, or too large to keep."""
    size: int

    @property
    def suffix(self) -> str:
        """The ending of a file with it."""
        return mimetypes.guess_extension(self.mime) or ".bin"

    def described(self) -> dict[str, Any]:
        """Return what the model is told about it."""
        return {"kind": self.kind, "mime": self.mime, "bytes": self.size}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswer:
    """A server's answer, made harmless."""

    output: Mapping[str, Any]
    attachments: tuple[Attachment, ...] = ()


def answer_from(result: Mapping[str, Any]) -> ServerAnswer:
    """Read the answer to `tools/call`; what cannot be understood is named, not passed on."""
    content = result.get("content")
    items: Sequence[Any] = content if isinstance(content, list) else []
    texts: list[str] = []
    links: list[dict[str, Any]] = []
    attachments: list[Attachment] = []
    left = MAX_TEXT_CHARS
    for item in items[:MAX_ITEMS]:
        match item:
            case {"type": "text", "text": str(text)} | {"type": "resource", "resource": {"text": str(text)}}:
                texts.append(text[:left])
                left -= min(len(text), left)
            case {"type": "image" | "audio" as kind, "data": str(data)}:
                attachments.append(_attachment(kind, item.get("mimeType"), data))
            case {"type": "resource", "resource": {"blob": str(data), **rest}}:
                attachments.append(_attachment("file", rest.get("mimeType"), data))
            case {"type": "resource_link", "uri": str(uri)}:
                links.append({"uri": uri[:_MAX_LABEL_CHARS], "name": _label(item.get("name"))})
            case _:
                texts.append("[something that cannot be shown]")
    output: dict[str, Any] = {}
    if result.get("isError") is True:
        output["is_error"] = True
    structured = result.get("structuredContent")
    whole = "\n".join(texts)
    if structured is not None and not _says_the_same(whole, structured):
        size = len(json.dumps(structured, ensure_ascii=False, default=str))
        output["structured"] = structured if size <= MAX_TEXT_CHARS else f"[{size} characters, too much to keep]"
    if whole or not output:
        output["text"] = whole
    if links:
        output["links"] = links
    if attachments:
        output["attachments"] = [each.described() for each in attachments]
    if len(items) > MAX_ITEMS or left <= 0:
        output["incomplete"] = f"the server sent more than {MAX_TEXT_CHARS} characters or {MAX_ITEMS} items"
    return ServerAnswer(output=output, attachments=tuple(attachments))


def _attachment(kind: str, mime: object, data: str) -> Attachment:
    size = len(data) * 3 // 4
    decoded: bytes | None = None
    if size <= MAX_SAVED_BYTES:
        try:
            decoded = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            decoded = None
    label = _label(mime) or "application/octet-stream"
    return Attachment(kind=kind, mime=label, data=decoded, size=size if decoded is None else len(decoded))


def _label(text: object) -> str:
    return clean_text(text, _MAX_LABEL_CHARS) if isinstance(text, str) else ""


def _says_the_same(text: str, structured: object) -> bool:
    """Tell whether the text is just the structured answer written out, as many servers do."""
    if not text.lstrip().startswith(("{", "[")):
        return structured == {"result": text}
    try:
        written: object = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return structured in (written, {"result": written})
