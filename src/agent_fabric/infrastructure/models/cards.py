"""What probing a model found out, kept for the next time; asking again would cost every run a request."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from agent_fabric.config.folders import base_folder, temporary_folder
from agent_fabric.domain.models.found_models import ModelCard
from agent_fabric.domain.models.messages import ToolDialect
from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.models.wire_values import optional_count

_MAX_BYTES = 1_000_000
_KEPT = (
    *("name", "dialect", "calls_tools", "calls_no_tools", "context_window", "served_window"),
    *("prompt_tokens_per_s", "tokens_per_s"),
)
_Stamp = tuple[int, int, int]


def cards_file(environ: Mapping[str, str]) -> Path:
    """Return where the cards of this user are kept."""
    return (base_folder(environ, "XDG_CACHE_HOME", ".cache") or temporary_folder()) / "model-cards.json"


class CardFile:
    """KnownCards in one file. It can be deleted at any time: it only saves work."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: dict[str, Any] = {}
        self._stamp: _Stamp | None = None
        """Tells the file that was read from a newer one."""

    def improve(self, card: ModelCard, base_url: str) -> ModelCard:
        known = self._cards().get(_key(card, base_url))
        if not isinstance(known, dict):
            return card
        try:
            return replace(
                card,
                dialect=ToolDialect(known["dialect"]),
                calls_tools=bool(known["calls_tools"]),
                calls_no_tools=bool(known.get("calls_no_tools", False)),
                context_window=card.context_window or optional_count(known.get("context_window")),
                served_window=card.served_window or optional_count(known.get("served_window")),
                prompt_tokens_per_s=_rate(known.get("prompt_tokens_per_s")),
                tokens_per_s=_rate(known.get("tokens_per_s")),
            )
        except (KeyError, ValueError):
            return card  # of another version: the next probe writes it anew

    def remember(self, card: ModelCard, base_url: str) -> None:
        """Keep what a probe found out.

        Raises:
            OSError: it cannot be written.
        """
        cards = dict(self._cards())
        cards[_key(card, base_url)] = {name: getattr(card, name) for name in _KEPT}
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(self._path, orjson.dumps(cards), durable=False)

    def _cards(self) -> dict[str, Any]:
        """Return what is in the file; read again when someone has written it, as a probe beside a server does."""
        try:
            about = self._path.stat()
            stamp = (about.st_mtime_ns, about.st_size, about.st_ino)
        except OSError:
            self._read, self._stamp = {}, None
            return self._read
        if stamp != self._stamp:
            self._read, self._stamp = self._load(), stamp
        return self._read

    def _load(self) -> dict[str, Any]:
        try:
            with self._path.open("rb") as file:
                cards = orjson.loads(file.read(_MAX_BYTES))
        except (OSError, ValueError):
            return {}
        return cards if isinstance(cards, dict) else {}


def _key(card: ModelCard, base_url: str) -> str:
    """Return what tells a model from all others: its weights, or else its name at its server."""
    return card.digest or f"{base_url} {card.name}"


def _rate(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
