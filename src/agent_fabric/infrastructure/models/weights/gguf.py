"""What a GGUF file says about itself, read from its first megabytes without trusting any of it."""

import struct
from io import FileIO
from pathlib import Path
from typing import Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.models.found_models import ModelCard

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_MAX_HEADER: Final = 128 * 2**20
"""Real ones have up to 20 MB: the vocabulary is in there."""
_READ_BYTES: Final = 4 * 2**20
_MAX_KEYS: Final = 10_000
_MAX_TENSORS: Final = 100_000
_MAX_ITEMS: Final = 4_000_000
_MAX_DIMENSIONS: Final = 8
_MAX_TEXT: Final = 64 * 1024
"""Longer texts are kept only by their beginning."""
_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING: Final = 8
_ARRAY: Final = 9

Value = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufInfo:
    """A model file's own words."""

    architecture: str
    context_length: int | None
    has_chat_template: bool
    """Without one it is a base model: it goes on with a text, but cannot hold a conversation."""
    parameters: int
    """Counted from its tensors."""
    is_lora: bool = False
    """It is no model, but a LoRA adapter for one."""
    base_sha256: str = ""
    """The file that an adapter of ours was trained on."""


class _Malformed(Exception):
    """The file breaks the format; the message says how."""


def card_of_file(path: Path) -> ModelCard:
    """Return what a GGUF file says about its model.

    Raises:
        ConfigError: as of `read_gguf`.
    """
    info = read_gguf(path)
    return ModelCard(
        name=path.stem,
        parameters_b=info.parameters / 1e9,
        chats=info.has_chat_template,
        context_window=info.context_length,
    )


def read_gguf(path: Path) -> GgufInfo:
    """Read what a GGUF file says about itself. Blocks for a fraction of a second.

    Raises:
        ConfigError: it is not there, cannot be read, or is no usable GGUF file.
    """
    try:
        if not path.is_file():
            raise ConfigError(
                f"There is no file {path}" if not path.exists() else f"{path} is not a file",
                hint="Name a GGUF file by its whole path, or an embedded model by its name.",
            )
        size = path.stat().st_size
        if not size:
            raise _Malformed("it is empty")
        with path.open("rb", buffering=0) as file:
            return _read(_Cursor(file), size)
    except _Malformed as problem:
        raise ConfigError(
            f"{path} is not a usable GGUF file: {problem}",
            hint="Download it again and compare its SHA-256, or name another file.",
        ) from None
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {problem.strerror or problem}") from None


class _Cursor:
    """Reads little-endian values one after the other, never behind the end."""

    def __init__(self, file: FileIO) -> None:
        # Read, not mapped: a file that shrinks while it is mapped would kill the process.
        self._file = file
        self._data = bytearray()
        self.at = 0
        self._items = 0

    def _load(self, end: int) -> None:
        """Have the first `end` bytes of the file in memory."""
        if end > _MAX_HEADER:
            raise _Malformed(f"its header has more than {_MAX_HEADER // 2**20} MB")
        while len(self._data) < end:
            more = self._file.read(_READ_BYTES)
            if not more:
                raise _Malformed("it ends in the middle of its header")
            self._data += more

    def take(self, size: int) -> int:
        """Step over `size` bytes and return where they begin."""
        begin = self.at
        self._load(begin + size)
        self.at = begin + size
        return begin

    def raw(self, size: int) -> bytes:
        begin = self.take(size)
        return bytes(self._data[begin : begin + size])

    def scalar(self, code: str) -> int | float | bool:
        value: int | float | bool = struct.unpack_from("<" + code, self._data, self.take(struct.calcsize("<" + code)))[
            0
        ]
        return value

    def count(self, code: str = "Q") -> int:
        return int(self.scalar(code))

    def text(self) -> str:
        length = self.count()
        begin = self.take(length)
        return self._data[begin : begin + min(length, _MAX_TEXT)].decode("utf-8", "replace")

    def value(self, kind: int) -> Value | None:
        """Return one value; None for an array, which is stepped over."""
        if kind in _SCALARS:
            return self.scalar(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            self._skip_array()
            return None
        raise _Malformed(f"it has a value of the unknown kind {kind}")

    def _skip_array(self) -> None:
        kind, length = self.count("I"), self.count()
        if kind in _SCALARS:
            self.take(length * struct.calcsize("<" + _SCALARS[kind]))
            return
        if kind != _STRING:
            raise _Malformed(f"it has a list of the unknown kind {kind}")
        self._items += length
        if self._items > _MAX_ITEMS:
            raise _Malformed(f"its lists have more than {_MAX_ITEMS} entries")
        unpack, at = struct.Struct("<Q").unpack_from, self.at
        for _ in range(length):  # a vocabulary has 150,000 of them: no call for each
            if at + 8 > len(self._data):
                self._load(at + 8)
            at += 8 + unpack(self._data, at)[0]
        self.take(at - self.at)


def _read(cursor: _Cursor, size: int) -> GgufInfo:
    if size < len(_MAGIC) or cursor.raw(len(_MAGIC)) != _MAGIC:
        raise _Malformed("it does not begin with the letters GGUF")
    version = cursor.count("I")
    if version not in _VERSIONS:
        raise _Malformed(f"it has version {version} of the format; {_VERSIONS[0]} and {_VERSIONS[1]} can be read")
    tensors, keys = cursor.count(), cursor.count()
    if tensors > _MAX_TENSORS or keys > _MAX_KEYS:
        raise _Malformed(f"it claims to have {tensors} tensors and {keys} keys")
    said: dict[str, Value] = {}
    for _ in range(keys):
        key = cursor.text()
        value = cursor.value(cursor.count("I"))
        if value is not None:
            said[key] = value
    architecture = _text(said, "general.architecture")
    if not architecture:
        raise _Malformed("it does not say which kind of model it is")
    parameters, last_offset = _tensors(cursor, tensors)
    if tensors and cursor.at + last_offset >= size:
        raise _Malformed("it ends before its last tensor; the download was probably cut off")
    window = said.get(f"{architecture}.context_length")
    return GgufInfo(
        architecture=architecture,
        context_length=window if isinstance(window, int) and window > 0 else None,
        has_chat_template=bool(_text(said, "tokenizer.chat_template")),
        parameters=parameters,
        is_lora=_text(said, "general.type") == "adapter" and _text(said, "adapter.type") == "lora",
        base_sha256=_text(said, "agent_fabric.base_sha256").lower(),
    )


def _tensors(cursor: _Cursor, count: int) -> tuple[int, int]:
    """Return how many numbers all tensors have together, and where the last one begins."""
    parameters, last = 0, 0
    for _ in range(count):
        cursor.text()
        dimensions = cursor.count("I")
        if dimensions > _MAX_DIMENSIONS:
            raise _Malformed(f"a tensor has {dimensions} dimensions")
        numbers = 1
        for _ in range(dimensions):
            numbers *= cursor.count()
        cursor.count("I")
        parameters += numbers
        last = max(last, cursor.count())
    return parameters, last


def _text(said: dict[str, Value], key: str) -> str:
    value = said.get(key, "")
    return value if isinstance(value, str) else ""
