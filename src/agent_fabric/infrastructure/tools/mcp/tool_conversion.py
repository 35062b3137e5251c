"""Converts what a server says: its descriptions of tools into tool specs, its answers into results.

Both are untrusted, and held to a size that can be kept.
"""

import base64
import binascii
import hashlib
import json
import mimetypes
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.tools.specs import Effect, ToolSpec, Trust

MAX_TOOLS: Final = 128
"""More than any model can choose from; what comes after is left out."""
MAX_DESCRIPTION_CHARS: Final = 4_000
MAX_SCHEMA_CHARS: Final = 24_000
_MAX_NAME: Final = 64
"""As long as models' servers take tool names."""
_MAX_DEPTH: Final = 10
_MAX_PROPERTIES: Final = 100
_MAX_CHOICES: Final = 200
_MAX_NOTE_CHARS: Final = 1_000
_HASH_CHARS: Final = 6
_MAX_COMMAND_CHARS: Final = 80

_ODD_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_TYPES: Final = frozenset(("object", "array", "string", "boolean", "integer", "number", "null"))
_COUNTS: Final = frozenset(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"))
_NUMBERS: Final = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
_ANYTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTool:
    """A tool as a server described it."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """Of its arguments, as sent."""

    @property
    def digest(self) -> str:
        """Identify what the model is told about it: another description or schema is another tool."""
        text = json.dumps([self.name, self.description, self.schema], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def tool_name(server: str, tool: str) -> str:
    """Return the name under which the model knows a server's tool."""
    name = _ODD_IN_NAMES.sub("_", f"mcp__{server}__{tool}")
    if len(name) <= _MAX_NAME:
        return name
    mark = hashlib.sha256(f"{server}\0{tool}".encode(errors="surrogatepass")).hexdigest()[:_HASH_CHARS]
    return f"{name[: _MAX_NAME - _HASH_CHARS - 1]}_{mark}"


def tool_spec(server: MCPServerConfig, tool: ListedTool) -> ToolSpec:
    """Return the tool for the model; its effect is what the configuration says, never what the server says."""
    parameters = clean_schema(tool.schema)
    if tool.name in server.read_only_tools:
        effect = Effect.READS
    else:
        effect = Effect(server.effects.get(tool.name, Effect.LEAVES_SANDBOX))
    identity = f"{server.name} ({server.url or ' '.join(server.command)[:_MAX_COMMAND_CHARS]})"
    return ToolSpec(
        name=tool_name(server.name, tool.name),
        description=clean_text(tool.description, MAX_DESCRIPTION_CHARS) or f"The tool {tool.name!r} of {server.name}.",
        parameters=parameters,
        effect=effect,
        timeout_s=server.call_timeout_s,
        url_argument=_url_argument(parameters),
        trust=Trust.MCP,
        server=identity,
        sends_to=f"the tool server {identity}" if _reaches_out(server) else "",
        private=server.private,
        described_elsewhere=not server.trusted,  # a program with all of the owner's rights has no need to persuade
    )


def _reaches_out(server: MCPServerConfig) -> bool:
    """Tell whether what a server is told may leave this machine; a program in its box without network keeps it."""
    return server.transport != "stdio" or server.trusted or server.network


def clean_text(text: str, limit: int) -> str:
    """Return text without what cannot be seen, and not longer than `limit`."""
    seen = "".join(char for char in text[: 2 * limit] if char.isprintable() or char in "\n\t").strip()
    return seen if len(seen) <= limit else f"{seen[: limit - 1]}…"


def clean_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema for the arguments that the engine and every model's server can work with.

    References are put in place. What is unknown, of the wrong type or nested too deeply is left out, which allows more:
    the server checks its arguments itself.
    """
    cleaned = _Cleaner(schema).clean(schema, 0, ())
    cleaned["type"] = "object"
    cleaned.setdefault("properties", {})
    for combination in ("anyOf", "oneOf", "enum", "const"):
        cleaned.pop(combination, None)  # at the top, most models' servers refuse them
    if len(json.dumps(cleaned)) > MAX_SCHEMA_CHARS:
        names = list(cleaned["properties"])
        return {
            "type": "object",
            "properties": {name: {} for name in names},
            "required": [name for name in cleaned.get("required", ()) if name in names],
        }
    return cleaned


class _Cleaner:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = 2_000
        """How many schemas may be made; references could double them without end."""

    def clean(self, schema: object, depth: int, within: tuple[str, ...]) -> dict[str, Any]:
        self._left -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._left < 0:
            return dict(_ANYTHING)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference in within:
                return dict(_ANYTHING)
            return self.clean(self._resolve(reference), depth, (*within, reference))
        cleaned: dict[str, Any] = {}
        for keyword, value in schema.items():
            kept = self._keyword(keyword, value, depth, within)
            if kept is not None:
                cleaned[keyword] = kept
        parts = schema.get("allOf")
        if isinstance(parts, list):
            for part in parts[:_MAX_CHOICES]:
                _merge(cleaned, self.clean(part, depth + 1, within))
        properties = cleaned.get("properties")
        if isinstance(properties, dict) and isinstance(cleaned.get("required"), list):
            cleaned["required"] = [name for name in cleaned["required"] if name in properties]
        return cleaned

    def _keyword(self, keyword: object, value: object, depth: int, within: tuple[str, ...]) -> Any:
        """Return what is kept of a keyword's value; None if nothing."""
        match keyword, value:
            case "type", str() if value in _TYPES:
                return value
            case "type", list():
                types = [each for each in value if isinstance(each, str) and each in _TYPES]
                return types or None
            case "description" | "title" | "format", str():
                return clean_text(value, _MAX_NOTE_CHARS)
            case "properties", Mapping():
                chosen = list(value.items())[:_MAX_PROPERTIES]
                return {str(name): self.clean(item, depth + 1, within) for name, item in chosen}
            case "required", list():
                return [name for name in value if isinstance(name, str)]
            case "items", Mapping():
                return self.clean(value, depth + 1, within)
            case "additionalProperties", bool():
                return value
            case "additionalProperties", Mapping():
                return self.clean(value, depth + 1, within)
            case "anyOf" | "oneOf", list() if value:
                return [self.clean(option, depth + 1, within) for option in value[:_MAX_CHOICES]]
            case "enum", list() if 0 < len(value) <= _MAX_CHOICES and all(map(_is_plain, value)):
                return list(value)
            case "const" | "default", _ if _is_plain(value) and value is not None:
                return value
            case str(), int() if keyword in _COUNTS and not isinstance(value, bool) and value >= 0:
                return value
            case str(), int() | float() if keyword in _NUMBERS and not isinstance(value, bool):
                return value
            case _:
                return None

    def _resolve(self, reference: str) -> object:
        if not reference.startswith("#"):
            return _ANYTHING  # nothing is ever fetched
        found: object = self._root
        for part in reference.lstrip("#").strip("/").split("/"):
            if not part:
                continue
            if not isinstance(found, Mapping):
                return _ANYTHING
            found = found.get(part.replace("~1", "/").replace("~0", "~"), _ANYTHING)
        return found


def _merge(into: dict[str, Any], part: Mapping[str, Any]) -> None:
    for keyword, value in part.items():
        if keyword == "properties":
            into["properties"] = {**into.get("properties", {}), **value}
        elif keyword == "required":
            into["required"] = [*into.get("required", ()), *value]
        else:
            into.setdefault(keyword, value)


def _is_plain(value: object) -> bool:
    return value is None or (isinstance(value, str | int | float) and len(str(value)) <= _MAX_NOTE_CHARS)


def _url_argument(parameters: Mapping[str, Any]) -> str:
    """Return the argument that is an address, so that the policy can judge where a call goes."""
    properties = parameters["properties"]
    return next((name for name in ("url", "uri") if properties.get(name, {}).get("type") == "string"), "")


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

    def describe(self) -> dict[str, Any]:
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
        output["attachments"] = [each.describe() for each in attachments]
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
