"""What a GGUF file says about itself; also when it lies."""

import random
import struct
from pathlib import Path

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.models.weights.gguf import read_gguf


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def words(*values: str) -> bytes:
    return struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values))


TENSOR = text("w") + struct.pack("<IQQIQ", 2, 1000, 30, 0, 0)
PAIRS = (
    pair("general.architecture", 8, text("llama")),
    pair("general.name", 8, text("Tiny")),
    pair("general.size_label", 8, text("30K")),
    pair("general.file_type", 4, struct.pack("<I", 15)),
    pair("llama.context_length", 4, struct.pack("<I", 4096)),
    pair("llama.rope", 6, struct.pack("<f", 1e4)),
    pair("tokenizer.tokens", 9, words(*(f"token{n}" for n in range(500)))),
    pair("tokenizer.scores", 9, struct.pack("<IQ", 6, 3) + b"\0" * 12),
    pair("tokenizer.chat_template", 8, text("{{ messages }}")),
)


def gguf(*pairs: bytes, version: int = 3, tensors: bytes = TENSOR, count: int = 1, keys: int | None = None) -> bytes:
    head = struct.pack("<4sIQQ", b"GGUF", version, count, len(pairs) if keys is None else keys)
    return head + b"".join(pairs) + tensors + b"\0" * 64


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def test_a_file_tells_its_kind_window_size_and_whether_it_can_chat(file: Path) -> None:
    file.write_bytes(gguf(*PAIRS))
    info = read_gguf(file)
    assert (info.architecture, info.context_length, info.parameters) == ("llama", 4096, 30_000)
    assert info.has_chat_template


def test_what_a_file_does_not_say_is_left_open(file: Path) -> None:
    file.write_bytes(gguf(PAIRS[0], tensors=b"", count=0))
    info = read_gguf(file)
    assert info.context_length is None
    assert not info.has_chat_template


HUGE = struct.pack("<Q", 2**63)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "empty"),
        (b"GG", "letters GGUF"),
        (b"<html>sign in please</html>", "letters GGUF"),
        (gguf(*PAIRS, version=1), "version 1"),
        (gguf(*PAIRS, keys=2**60), "keys"),
        (gguf(*PAIRS, count=2**60), "tensors"),
        (gguf(*PAIRS)[:300], "ends in the middle"),
        (gguf(pair("a", 99, b"")), "unknown kind 99"),
        (gguf(pair("a", 9, struct.pack("<IQ", 9, 5))), "list of the unknown kind 9"),
        (gguf(HUGE), "header has more than"),
        (gguf(pair("a", 8, HUGE)), "header has more than"),
        (gguf(pair("a", 9, struct.pack("<I", 0) + HUGE)), "header has more than"),
        (gguf(pair("a", 9, struct.pack("<I", 8) + HUGE)), "entries"),
        (gguf(pair("a", 9, struct.pack("<IQ", 8, 3) + HUGE)), "header has more than"),
        (gguf(PAIRS[1]), "which kind of model"),
        (gguf(pair("general.architecture", 4, struct.pack("<I", 1))), "which kind of model"),
        (gguf(*PAIRS, tensors=text("w") + struct.pack("<I", 4_000_000)), "dimensions"),
        (gguf(*PAIRS, tensors=text("w") + struct.pack("<IQIQ", 1, 5, 0, 2**40)), "cut off"),
    ],
)
def test_a_malformed_file_is_refused_with_the_reason(file: Path, data: bytes, told: str) -> None:
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=told) as caught:
        read_gguf(file)
    assert str(file) in caught.value.message


def test_a_file_with_any_bytes_changed_is_read_or_refused_but_never_breaks_the_reader(file: Path) -> None:
    chance = random.Random(4)
    whole = gguf(*PAIRS)
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        file.write_bytes(bytes(data[: chance.randint(0, len(data))]))
        try:
            read_gguf(file)
        except ConfigError as problem:
            assert problem.message


def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no file"):
        read_gguf(tmp_path / "none.gguf")
    with pytest.raises(ConfigError, match="is not a file"):
        read_gguf(tmp_path)
