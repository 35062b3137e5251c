"""Models in a person's words."""

from collections.abc import Iterator, Sequence
from typing import TextIO

from agent_fabric.application.models.list_models import ModelAvailability
from agent_fabric.application.ports.models import Stored
from agent_fabric.domain.models.messages import ToolDialect
from agent_fabric.interfaces.cli.output import colour, for_this_installation, plain
from agent_fabric.wire.shape import Json

_STYLES = {
    ModelAvailability.READY: "green",
    ModelAvailability.LATER: "yellow",
    ModelAvailability.ELSEWHERE: "cyan",
    ModelAvailability.BLOCKED: "red",
}
_STANDINGS = {
    ModelAvailability.READY: "ready",
    ModelAvailability.LATER: "not ready yet",
    ModelAvailability.ELSEWHERE: "on another machine",
    ModelAvailability.BLOCKED: "cannot be used",
}
_DIALECTS = {
    ToolDialect.NATIVE: "native: the server has tool calls of its own, and the model makes them",
    ToolDialect.SCHEMA: "schema: the server lets the model write nothing but a call, as JSON",
    ToolDialect.TEXT: "text: the model writes its calls as fenced blocks, which are read strictly",
}
_SLOW_TOKENS_PER_S = 10.0


def model_list(found: Json, stream: TextIO) -> str:
    """Return what `fabric models list` prints about what the wire shape `MODELS` holds."""
    width = max(len(each["key"]) for each in found["models"])
    lines: list[str] = []
    for each in found["models"]:
        lines += [*_key_lines(each, found, width, stream), ""]
    for server in found["ollama"]:
        lines += [*_ollama_lines(server), ""]
    return "\n".join([*lines, *_shelf_lines(found["embedded"])]) + "\n"


def catalogue_text(found: Json) -> str:
    """Return what `fabric models list --catalogue` prints about what the wire shape `MODELS` holds."""
    models = found["embedded"]["catalogue"]
    rows = [("name", "download", "memory", "window", "licence", "SHA-256", "measured", "")]
    rows += [
        (
            plain(each["called"]),
            f"{each['size_bytes'] / 1e6:,.0f} MB",
            f"{each['memory_bytes'] / 1e9:.1f} GB",
            f"{each['context_window']:,}",
            plain(each["licence"]),
            f"{each['sha256'][:12]}…",
            plain(each["measured"]) or "not measured",
            _stored_text(each),
        )
        for each in models
    ]
    return f"{_table(rows)}\nGet one: fabric models pull NAME. Which fits: fabric models recommend\n"


def recommended_text(found: Json) -> str:
    """Return what `fabric models recommend` prints about what the wire shape `RECOMMENDED` holds."""
    memory = "unknown memory" if found["memory_bytes"] is None else f"{found['memory_bytes'] / 1e9:.1f} GB of memory"
    machine = f"{memory}, {found['cores']} core{'' if found['cores'] == 1 else 's'} to compute with"
    rows = [
        ("→" if each["called"] == found["name"] else "✓" if each["fits"] else "✗", plain(each["called"]), each["why"])
        for each in found["models"]
    ]
    if found["name"] is None:
        advice = "Use a model of another machine: fabric models use http://HOST:PORT/v1"
    else:
        advice = f"Get it: fabric models pull {plain(found['name'])}\nUse it: fabric models use {plain(found['name'])}"
    head = f"{plain(found['name'] or 'None')}: {plain(found['why'])}"
    return f"This machine has {machine}.\n{head}\n\n{_table(rows)}\n{advice}\n"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def probed_text(probed: Json, key: str, stream: TextIO) -> str:
    """Return what `fabric models probe` prints about what the wire shape `PROBED_MODEL` holds."""
    lines = [f"{plain(key)}: {plain(probed['model'])}{_place(probed)} ({plain(probed['why'])})"]
    for trial in probed["trials"]:
        mark = colour("✓", "green", stream) if trial["worked"] else colour("✗", "red", stream)
        lines.append(f"  {mark} {plain(trial['dialect']):<7} {plain(trial['said'])}")
    dialect = None if probed["dialect"] is None else ToolDialect(probed["dialect"])
    if dialect is None:
        lines += [
            "It calls tools in none of these ways, so it cannot do tasks.",
            "Choose another one, for example: fabric models pull qwen2.5:7b, then fabric models use qwen2.5:7b",
        ]
    else:
        lines.append(f"Tool calls are {_DIALECTS[dialect]}.")
    window = probed["context_window"]
    lines.append(f"Window: {_tokens(window)}." if window else "Window: unknown, the server does not report it.")
    lines.append(f"Speed: {_speed(probed) or 'it answers in one piece, so reading and writing cannot be told apart'}.")
    rate = probed["tokens_per_s"]
    if rate is not None and rate < _SLOW_TOKENS_PER_S:
        lines.append(
            f"That is slow: writing a file of 400 tokens takes {400 / rate:,.0f} s. A smaller model is faster."
        )
    before = probed["dialect_before"]
    if dialect is not None and before != dialect and probed["kept"]:
        lines.append(
            f"Runs used {plain(before)} so far; from now on {dialect}, unless "
            f"`models.{plain(key)}.dialect` or `strict_native` is set."
        )
    remembered = "Remembered for later runs." if dialect is not None else "Remembered: `fabric doctor` reports it."
    lines.append(remembered if probed["kept"] else f"Not remembered: {plain(probed['problem'])}.")
    return "\n".join(lines) + "\n"


def _key_lines(meant: Json, found: Json, width: int, stream: TextIO) -> Iterator[str]:
    key, standing = plain(meant["key"]), ModelAvailability(meant["standing"])
    roles = {found["default_model_key"]: "does the work", found["routing_model_key"]: "chooses specialists"}
    role = f"  ({roles[meant['key']]})" if meant["key"] in roles else ""
    state = colour(_STANDINGS[standing], _STYLES[standing], stream)
    pad = " " * (width + 2)
    if meant.get("model") is None:
        yield f"{key:<{width}}  {state}{role}"
    else:
        yield f"{key:<{width}}  {plain(meant['model'])}{_place(meant)}{role}"
        yield f"{pad}{state} · {plain(meant['why'])}"
        window = meant["context_window"]
        facts = [f"window {_tokens(window)}" if window else "window unknown"]
        facts.append(f"{plain(meant['dialect'])} tool calls")
        facts += ["short prompts"] if meant["compact"] else []
        facts.append(_speed(meant) or f"speed not measured (fabric models probe {key})")
        yield pad + " · ".join(facts)
        if meant["adapter"]:
            yield f"{pad}adapter {plain(meant['adapter'])} · SHA-256 {meant['adapter_sha256'] or 'not read'}"
    if meant["note"]:
        yield f"{pad}{plain(meant['note'])}"
    if meant["fix"]:
        yield f"{pad}→ {plain(for_this_installation(meant['fix']))}"


def _place(model: Json) -> str:
    """Say where a model is; those of our own have no address."""
    return f", {plain(model['backend'])}" if model["base_url"] is None else f" at {plain(model['base_url'])}"


def _ollama_lines(found: Json) -> Iterator[str]:
    address = plain(found["base_url"])
    if not found["running"]:
        more = " It is installed: a run starts it." if found["startable"] else ""
        yield f"Ollama: no answer from {address}.{more}"
        return
    yield f"Ollama {plain(found['version'] or '')} at {address}:" + ("" if found["models"] else " no models yet")
    width = max((len(plain(card["name"])) for card in found["models"]), default=0)
    for card in found["models"]:
        yield f"  {plain(card['name']):<{width}}  {_size(card):>7}  {_ability(card)}{_window(card)}"


def _size(card: Json) -> str:
    return "" if card["parameters_b"] is None else f"{card['parameters_b']:.1f}B"


def _ability(card: Json) -> str:
    if not card["chats"]:
        return "only vectors"
    words = "calls tools" if card["calls_tools"] else "no tool calls of its own"
    return f"{words}, runs on another machine" if card["remote"] else words


def _window(card: Json) -> str:
    window, served = card["context_window"], card["served_window"]
    if not card["chats"] or window is None:
        return ""
    less = f", {served:,} unless more is asked for" if served and served < window else ""
    return f"  window {window:,}{less}"


def _shelf_lines(shelf: Json) -> Iterator[str]:
    runtime = (
        f"xllamacpp {plain(shelf['runtime'])}"
        if shelf["runtime"]
        else for_this_installation('llama.cpp not installed: pip install "agent-fabric[embedded]"')
    )
    yield f"Embedded models in {plain(shelf['folder'])} ({runtime}):"
    for entry in shelf["catalogue"]:
        if entry["profile"] or entry["stored"] != Stored.MISSING:
            size = f"{entry['size_bytes'] / 1e6:>6,.0f} MB"
            about = f"{plain(entry['name'])}  {size}  {plain(entry['licence'])}  {_stored_text(entry)}"
            yield f"  {plain(entry['profile']):<7}  {about}"
    more = sum(not entry["profile"] and entry["stored"] == Stored.MISSING for entry in shelf["catalogue"])
    if more:
        yield f"  {more} more can be had: fabric models list --catalogue"
    for file in shelf["files"]:
        yield f"  {'file':<7}  {plain(file['name'])}  {file['size_bytes'] / 1e6:>6,.0f} MB"
    for each in shelf["loaded"]:
        memory = "" if each["memory_bytes"] is None else f", {each['memory_bytes'] / 1e9:.1f} GB of memory"
        if each["loading"]:
            state = "loading"
        elif each["in_use"]:
            state = "in use"
        else:
            until = "" if each["idle_s"] is None else f", ends after {each['idle_s']:.0f} s"
            state = f"idle for {each['idle_for_s']:.0f} s{until}"
        yield f"  running  {plain(each['name'])}: process {each['pid']}{memory}, {state}"


def _stored_text(entry: Json) -> str:
    match Stored(entry["stored"]):
        case Stored.CHECKED:
            return "downloaded"
        case Stored.UNCHECKED:
            return "there, checked at first use"
        case Stored.BEGUN:
            return f"begun: {entry['begun_bytes'] * 100 // entry['size_bytes']} %"
        case Stored.MISSING:
            return "not downloaded"


def _tokens(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,} tokens"


def _speed(measured: Json) -> str:
    parts = []
    if measured["prompt_tokens_per_s"] is not None:
        parts.append(f"reads {measured['prompt_tokens_per_s']:,.0f}")
    if measured["tokens_per_s"] is not None:
        parts.append(f"writes {measured['tokens_per_s']:,.1f}")
    return f"{', '.join(parts)} tokens a second" if parts else ""
