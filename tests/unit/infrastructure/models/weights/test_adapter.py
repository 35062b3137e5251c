"""An adapter is loaded only beside the weights that it belongs to."""

import hashlib
from pathlib import Path

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.models.servers.llama_servers import ServerSpec
from agent_fabric.infrastructure.models.weights.adapter import Base, check_adapter
from unit.infrastructure.models.weights.test_gguf import PAIRS, gguf, pair, text

LORA = (pair("general.type", 8, text("adapter")), pair("adapter.type", 8, text("lora")))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "base.gguf").write_bytes(gguf(*PAIRS))
    return tmp_path / "base.gguf"


def adapter_in(folder: Path, *pairs: bytes) -> Path:
    path = folder / "adapter.gguf"
    path.write_bytes(gguf(*pairs))
    return path


def of_base(sha256: str) -> bytes:
    return pair("agent_fabric.base_sha256", 8, text(sha256))


@pytest.mark.proves("SM-1")
def test_an_adapter_of_ours_belongs_to_one_file(base: Path) -> None:
    sha256 = hashlib.sha256(base.read_bytes()).hexdigest()
    adapter = adapter_in(base.parent, PAIRS[0], *LORA, of_base(sha256))
    check_adapter(adapter, Base(base, None))
    check_adapter(adapter, Base(base, sha256))
    check_adapter(adapter, Base(base.with_name("later.gguf"), sha256))
    for other in ("0" * 64, None):
        if other is None:
            base.write_bytes(base.read_bytes() + b"\0")
        with pytest.raises(ConfigError, match="trained on another file") as caught:
            check_adapter(adapter, Base(base, other))
        assert "adapter: none" in caught.value.hint


@pytest.mark.proves("SM-1")
def test_an_adapter_of_others_is_held_to_the_kind_of_model(base: Path) -> None:
    check_adapter(adapter_in(base.parent, PAIRS[0], *LORA), Base(base, None))
    other = adapter_in(base.parent, pair("general.architecture", 8, text("qwen2")), *LORA)
    with pytest.raises(ConfigError, match="is for qwen2 models"):
        check_adapter(other, Base(base, None))


@pytest.mark.proves("SM-1")
@pytest.mark.parametrize("pairs", [PAIRS, (PAIRS[0], LORA[0]), (PAIRS[0], LORA[1])])
def test_what_is_no_adapter_is_told_from_one(base: Path, pairs: tuple[bytes, ...]) -> None:
    with pytest.raises(ConfigError, match="is not a LoRA adapter"):
        check_adapter(adapter_in(base.parent, *pairs), Base(base, None))


def test_each_adapter_has_a_server_of_its_own(base: Path) -> None:
    adapter = adapter_in(base.parent, PAIRS[0], *LORA)
    keys = {ServerSpec(model=base).key(), ServerSpec(model=base, adapter=adapter).key()}
    adapter.write_bytes(adapter.read_bytes() + b"\0")
    assert len({*keys, ServerSpec(model=base, adapter=adapter).key()}) == 3
