"""Language models as they are found: what each can do, and which one is taken by default."""

import re
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.models.addresses import is_loopback
from agent_fabric.domain.models.messages import ToolDialect

_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([KMBT])?", re.IGNORECASE | re.ASCII)
_SIZE_IN_NAME = re.compile(
    r"(?<![a-z0-9.])(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)([bm])(?![a-z0-9])", re.IGNORECASE | re.ASCII
)
_NO_CHAT = re.compile(
    r"embed|rerank|(?<![a-z])(?:bge|gte|e5|minilm|whisper|tts|clip|flux|sdxl|image|moderation|reranker)(?![a-z])",
    re.IGNORECASE,
)
_UNITS = {"K": 1e-6, "M": 1e-3, "B": 1.0, "T": 1e3}
_LIBRARY = ("registry.ollama.ai/", "library/")
"""What Ollama leaves out of a name because it goes without saying."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """What is known of a model before it is asked anything."""

    name: str
    """As its server knows it."""
    digest: str = ""
    """Identifies its weights; empty when the server does not say."""
    parameters_b: float | None = None
    """Its size in billions of parameters."""
    chats: bool = True
    calls_tools: bool = True
    """It can call tools natively, as far as its server knows."""
    calls_no_tools: bool = False
    """It called no tools when it was probed, in any dialect."""
    dialect: ToolDialect = ToolDialect.NATIVE
    context_window: int | None = None
    """Tokens that the model was made for."""
    served_window: int | None = None
    """Tokens that its server really gives it, unless it is asked for more."""
    remote: bool = False
    """Its server passes requests on to another machine."""
    compact: bool = False
    """Small or slow: short prompts suit it."""
    prompt_tokens_per_s: float | None = None
    tokens_per_s: float | None = None
    """How fast it writes, as last measured here."""


def parameters_from(text: str) -> float | None:
    """Return a size such as "8.0B" or "494.03M" in billions of parameters; None when it is none."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    return float(match[1]) * _UNITS[(match[2] or "B").upper()]


def parameters_in_name(name: str) -> float | None:
    """Return the size that a name tells, as `qwen2.5-7b-instruct` or `mixtral-8x7b` do; None when it tells none."""
    found = _SIZE_IN_NAME.findall(name)
    return max((float(times or 1) * float(size) * _UNITS[unit.upper()] for times, size, unit in found), default=None)


def is_no_chat_model(name: str) -> bool:
    """Tell whether a name or a kind is that of a model for something else: embeddings, ranking, speech, pictures."""
    return _NO_CHAT.search(name) is not None


def smallest_chat_model(cards: Sequence[ModelCard]) -> ModelCard | None:
    """Return the smallest model that can chat; of those whose size is not known, the first."""
    usable = [card for card in cards if card.chats]
    return min(usable, key=lambda card: card.parameters_b or float("inf"), default=None)


def same_model(one: str, other: str) -> bool:
    """Tell whether two names mean the same model: a name without a tag means `:latest`."""
    return _tag(one) == _tag(other)


def _tag(name: str) -> str:
    plain = name.strip().lower()
    for prefix in _LIBRARY:
        plain = plain.removeprefix(prefix)
    return plain if ":" in plain.rsplit("/", 1)[-1] else f"{plain}:latest"


def find_model(cards: Sequence[ModelCard], name: str) -> ModelCard | None:
    """Return the model of that name, if it is there."""
    return next((card for card in cards if same_model(card.name, name)), None)


def tool_callers(cards: Sequence[ModelCard]) -> list[ModelCard]:
    """Return the models on this machine that can chat and call tools, the smallest first."""
    usable = [card for card in cards if card.chats and card.calls_tools and not card.remote]
    return sorted(usable, key=lambda card: (card.parameters_b or float("inf"), card.name))


def select_model(cards: Sequence[ModelCard], configured: str | None) -> ModelCard | None:
    """Return the configured model if it is there, else the smallest that can chat and call tools.

    A model that runs elsewhere is taken only by name: a conversation leaves this machine only when the user says so.
    """
    found = None if configured is None else find_model(cards, configured)
    return found or next(iter(tool_callers(cards)), None)


@lru_cache(maxsize=256)
def host_elsewhere(base_url: str) -> str:
    """Return the host of an address if it is another machine, else nothing."""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return base_url
    return "" if not host or is_loopback(host) else host
