"""Models in a person's words."""

from collections.abc import Iterator
from typing import TextIO

from agent_fabric.application.models.list_models import MeantModel, ModelList, Standing
from agent_fabric.application.models.probe_model import Probed
from agent_fabric.application.ports.models import CatalogueEntry, OllamaFound, Speed, Stored
from agent_fabric.domain.messages import ModelSettings, ToolDialect
from agent_fabric.domain.models import ModelCard
from agent_fabric.interfaces.cli.output import plain, styled

_STYLES = {Standing.READY: "green", Standing.LATER: "yellow", Standing.ELSEWHERE: "cyan", Standing.BLOCKED: "red"}
_STANDINGS = {
    Standing.READY: "ready",
    Standing.LATER: "not ready yet",
    Standing.ELSEWHERE: "on another machine",
    Standing.BLOCKED: "cannot be used",
}
_DIALECTS = {
    ToolDialect.NATIVE: "native: the server has tool calls of its own, and the model makes them",
    ToolDialect.SCHEMA: "schema: the server lets the model write nothing but a call, as JSON",
    ToolDialect.TEXT: "text: the model writes its calls as fenced blocks, which are read strictly",
}
_SLOW_TOKENS_PER_S = 10.0


def listed(found: ModelList, stream: TextIO) -> str:
    """Return what `fabric models list` prints."""
    width = max(len(each.key) for each in found.keys)
    lines: list[str] = []
    for each in found.keys:
        lines += [*_meant(each, found, width, stream), ""]
    for server in found.ollama:
        lines += [*_ollama(server), ""]
    return "\n".join([*lines, *_embedded(found)]) + "\n"


def probed_text(probed: Probed, key: str, stream: TextIO) -> str:
    """Return what `fabric models probe` prints."""
    lines = [f"{key}: {plain(probed.settings.model)}{_place(probed.settings)} ({plain(probed.why)})"]
    for trial in probed.trials:
        mark = styled("✓", "green", stream) if trial.worked else styled("✗", "red", stream)
        lines.append(f"  {mark} {trial.dialect.value:<7} {plain(trial.said)}")
    if probed.dialect is None:
        lines += [
            "It calls tools in none of these ways, so it cannot do tasks.",
            "Take another one, for example: fabric models pull qwen2.5:7b, then fabric models use qwen2.5:7b",
        ]
    else:
        lines.append(f"Tool calls are {_DIALECTS[probed.dialect]}.")
    lines.append(f"Window: {_tokens(probed.window)}." if probed.window else "Window: the server does not tell.")
    lines.append(
        f"Speed: {_speed(probed.speed) or 'it answers in one piece, so that reading and writing look the same'}."
    )
    rate = probed.speed.tokens_per_s
    if rate is not None and rate < _SLOW_TOKENS_PER_S:
        lines.append(
            f"That is slow: writing a file of 400 tokens takes {400 / rate:,.0f} s. A smaller model is faster."
        )
    pinned = probed.dialect is not None and probed.settings.dialect != probed.dialect and probed.kept
    if pinned:
        lines.append(
            f"Runs used {probed.settings.dialect} so far; from now on {probed.dialect}, unless "
            f"`models.{key}.dialect` or `strict_native` is set."
        )
    lines.append("Remembered for later runs." if probed.kept else f"Not remembered: {plain(probed.problem)}.")
    return "\n".join(lines) + "\n"


def _meant(meant: MeantModel, found: ModelList, width: int, stream: TextIO) -> Iterator[str]:
    roles = {found.default_key: "does the work", found.routing_key: "chooses specialists"}
    role = f"  ({roles[meant.key]})" if meant.key in roles else ""
    state = styled(_STANDINGS[meant.standing], _STYLES[meant.standing], stream)
    pad = " " * (width + 2)
    if meant.settings is None:
        yield f"{meant.key:<{width}}  {state}{role}"
    else:
        settings = meant.settings
        yield f"{meant.key:<{width}}  {plain(settings.model)}{_place(settings)}{role}"
        yield f"{pad}{state} · {plain(meant.why)}"
        facts = [f"window {_tokens(settings.context_window)}" if settings.context_window else "window unknown"]
        facts.append(f"{settings.dialect} tool calls")
        facts += ["short prompts"] if settings.compact else []
        facts.append(_speed(meant.speed) or "speed not measured (fabric models probe " + meant.key + ")")
        yield pad + " · ".join(facts)
    if meant.note:
        yield f"{pad}{plain(meant.note)}"
    if meant.fix:
        yield f"{pad}→ {plain(meant.fix)}"


def _place(settings: ModelSettings) -> str:
    return f", {settings.backend}" if settings.is_ours else f" at {settings.base_url}"


def _ollama(found: OllamaFound) -> Iterator[str]:
    if not found.running:
        more = " It is installed: a run starts it." if found.startable else ""
        yield f"Ollama: nobody answers at {found.base_url}.{more}"
        return
    yield f"Ollama {plain(found.version or '')} at {found.base_url}:" + ("" if found.models else " no models yet")
    width = max((len(plain(card.name)) for card in found.models), default=0)
    for card in found.models:
        yield f"  {plain(card.name):<{width}}  {_size(card):>7}  {_ability(card)}{_window(card)}"


def _size(card: ModelCard) -> str:
    return "" if card.parameters_b is None else f"{card.parameters_b:.1f}B"


def _ability(card: ModelCard) -> str:
    if not card.chats:
        return "only vectors"
    words = "calls tools" if card.calls_tools else "no tool calls of its own"
    return f"{words}, runs on another machine" if card.remote else words


def _window(card: ModelCard) -> str:
    if not card.chats or card.context_window is None:
        return ""
    served = card.served_window
    less = f", {served:,} unless more is asked for" if served and served < card.context_window else ""
    return f"  window {card.context_window:,}{less}"


def _embedded(found: ModelList) -> Iterator[str]:
    shelf = found.shelf
    runtime = (
        f"xllamacpp {shelf.runtime}"
        if shelf.runtime
        else 'llama.cpp not installed: pip install "agent-fabric[embedded]"'
    )
    yield f"Embedded models in {plain(shelf.folder)} ({runtime}):"
    for entry in shelf.catalogue:
        size = f"{entry.size_bytes / 1e6:>6,.0f} MB"
        yield f"  {entry.profile:<7}  {entry.name}  {size}  {entry.licence}  {_stored(entry)}"
    for file in shelf.files:
        yield f"  {'file':<7}  {plain(file.name)}  {file.size_bytes / 1e6:>6,.0f} MB"
    for each in found.loaded:
        memory = "" if each.memory_bytes is None else f", {each.memory_bytes / 1e9:.1f} GB of memory"
        if each.loading:
            state = "loading"
        elif each.in_use:
            state = "in use"
        else:
            until = "" if each.idle_s is None else f", ends after {each.idle_s:.0f} s"
            state = f"idle for {each.idle_for_s:.0f} s{until}"
        yield f"  running  {plain(each.name)}: process {each.pid}{memory}, {state}"


def _stored(entry: CatalogueEntry) -> str:
    match entry.stored:
        case Stored.CHECKED:
            return "downloaded"
        case Stored.UNCHECKED:
            return "there, checked at first use"
        case Stored.BEGUN:
            return f"begun: {entry.begun_bytes * 100 // entry.size_bytes} %"
        case Stored.MISSING:
            return "not downloaded"


def _tokens(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,} tokens"


def _speed(speed: Speed) -> str:
    parts = []
    if speed.prompt_tokens_per_s is not None:
        parts.append(f"reads {speed.prompt_tokens_per_s:,.0f}")
    if speed.tokens_per_s is not None:
        parts.append(f"writes {speed.tokens_per_s:,.1f}")
    return f"{', '.join(parts)} tokens a second" if parts else ""
