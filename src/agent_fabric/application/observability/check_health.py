"""Tells whether a task could run here, and for everything that is in its way what to do about it."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import NamedTuple

from agent_fabric.application.models.list_models import MeantModel, ModelAvailability, ModelList
from agent_fabric.application.observability.check_readiness import LEAST_FREE_BYTES
from agent_fabric.application.ports.machine import Machine, MachineFacts
from agent_fabric.application.ports.models import CatalogueEntry, Stored
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.observability.findings import HealthFinding, Level
from agent_fabric.domain.plural import count_of

LITTLE_SPACE_BYTES = 10**9
_SPARE_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Egress:
    """What the configuration lets leave this machine."""

    offline: bool
    fallback: str | None
    """The model, and when it is asked, that may answer instead of the local one."""
    traces: str | None
    """Where traces go."""


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """The box that commands run in."""

    level: str
    means: str
    """In a sentence for people."""
    problems: tuple[str, ...] = ()
    """Why it is not stronger."""


class Need(NamedTuple):
    """What an extra is needed for."""

    text: str
    by_all: bool = False
    """Whether no task can run without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckHealth:
    """Use case: look at the machine, the configuration and the models; change and send nothing."""

    machine: Machine
    root: str
    """The fabric folder."""
    box: SandboxStatus
    egress: Egress
    needs: Mapping[str, Need] = field(default_factory=dict)
    """What the configuration needs each extra for."""

    def __call__(self, models: ModelList) -> list[HealthFinding]:
        """Return all findings, in the order in which a person would look."""
        facts = self.machine.facts()
        default = models.meant_by(models.default_key)
        return [
            *self._packages(facts, models),
            self._folder(),
            *(_meaning(models, key) for key in dict.fromkeys((models.default_key, models.routing_key))),
            *_ollama(models),
            *self._embedded_findings(facts, models, default),
            *_proxies(facts),
            _sandbox(self.box),
            *self._leaves(models),
        ]

    def _packages(self, facts: MachineFacts, models: ModelList) -> Iterator[HealthFinding]:
        for extra, version in facts.extras.items():
            if version is not None:
                yield _ok(f"extra {extra}", f"installed ({_NEEDED_FOR[extra]})")
                continue
            need = self.needs.get(extra)
            if need is None and extra == "embedded" and _is_embedded(models):
                need = Need(_NEEDED_FOR[extra])
            level = Level.OK if need is None else Level.FAIL if need.by_all else Level.WARN
            text = f"needed for {need.text}" if need is not None else f"only needed for {_NEEDED_FOR[extra]}"
            yield HealthFinding(
                f"extra {extra}", level, f"not installed; {text}", f'pip install "agent-fabric[{extra}]"'
            )

    def _folder(self) -> HealthFinding:
        about = "fabric folder"
        if not self.machine.may_write(self.root):
            fix = "Work in a folder of your own, or name one: --workspace DIR"
            return HealthFinding(about, Level.FAIL, f"{self.root} cannot be written to", fix)
        free = self.machine.free_bytes(self.root)
        if free is None:
            return _ok(about, f"{self.root}; it is unknown how much is free on its disk")
        text = f"{self.root}, {_size(free)} free on its disk"
        if free >= LITTLE_SPACE_BYTES:
            return _ok(about, text)
        fix = "Free some space there (`fabric gc` deletes old runs), or use another folder: --workspace DIR"
        return HealthFinding(about, Level.FAIL if free < LEAST_FREE_BYTES else Level.WARN, f"only {text}", fix)

    def _embedded_findings(
        self, facts: MachineFacts, models: ModelList, default: MeantModel
    ) -> Iterator[HealthFinding]:
        used = _is_embedded(models)
        bad = Level.FAIL if used else Level.OK
        if facts.has_avx2 is False:
            yield HealthFinding(
                "processor",
                bad,
                f"{facts.platform}, without AVX2, which the embedded model needs",
                "Use Ollama or another server: fabric models use http://HOST:PORT/v1",
            )
        else:
            yield _ok("processor", facts.platform + (", with AVX2" if facts.has_avx2 else ""))
        name = default.settings.model if used and default.settings else models.default_key
        entry = next((each for each in models.shelf.catalogue if name in (each.name, each.profile)), None)
        if entry is not None:
            yield _weights(entry, needed=used)
            yield _disk(entry, self.machine.free_bytes(models.shelf.folder), models.shelf.folder, bad)
            yield _memory(entry, facts, loaded=any(each.path == entry.path for each in models.shelf.loaded), used=used)
        for each in models.shelf.loaded:
            idle = "in use" if each.in_use else f"idle for {each.idle_for_s:.0f} s"
            memory = "" if each.memory_bytes is None else f", {_gb(each.memory_bytes)} of memory"
            yield _ok("embedded server", f"{each.name}: process {each.pid}{memory}, {idle}")
        if not models.shelf.loaded and models.shelf.runtime is not None:
            yield _ok("embedded server", "not running; the first task that needs it starts it")

    def _leaves(self, models: ModelList) -> Iterator[HealthFinding]:
        away = [
            f"{each.key} ({each.settings.model} at {each.settings.base_url})"
            for each in models.keys
            if each.standing is ModelAvailability.ELSEWHERE and each.settings is not None
        ]
        if self.egress.offline:
            yield _ok("privacy", "offline: no model on another machine is ever asked")
        elif away:
            yield _ok("privacy", f"these models are on other machines and are sent conversations: {', '.join(away)}")
        else:
            yield _ok("privacy", "all configured models are on this machine; conversations stay here")
        if self.egress.fallback is not None and not self.egress.offline:
            yield HealthFinding(
                "privacy",
                Level.WARN,
                f"a second model may be sent conversations: {self.egress.fallback}",
                "Remove `cloud_fallback`, or set `offline: true`",
            )
        if self.egress.traces is not None:
            yield _ok("privacy", f"traces go to {self.egress.traces}")


_NEEDED_FOR = {
    "embedded": "the model inside agent-fabric",
    "search": "web search by the research specialist",
    "documents": "documents in PDF",
    "embeddings": "search by meaning in memory and runs",
    "telemetry": "OpenTelemetry traces",
    "mcp": "tool servers, and serving MCP",
    "browser": "the browser",
}


def can_run(findings: list[HealthFinding]) -> bool:
    """Tell whether a task could run."""
    return all(finding.level is not Level.FAIL for finding in findings)


def _ok(about: str, text: str) -> HealthFinding:
    return HealthFinding(about, Level.OK, text)


def _is_embedded(models: ModelList) -> bool:
    default = models.meant_by(models.default_key)
    return default.settings is not None and default.settings.backend == "embedded"


def _meaning(models: ModelList, key: str) -> HealthFinding:
    meant = models.meant_by(key)
    about = f"model {key}"
    if meant.settings is None:
        return HealthFinding(about, _bad(models, key), meant.note, meant.fix)
    where = "" if meant.settings.is_ours else f" at {meant.settings.base_url}"
    text = f"{meant.settings.model}{where} ({meant.why})"
    if meant.calls_no_tools:
        return HealthFinding(about, _bad(models, key), f"{text}; {meant.note}", meant.fix)
    match meant.standing:
        case ModelAvailability.READY:
            return _ok(about, text)
        case ModelAvailability.LATER:
            return HealthFinding(about, Level.WARN, f"{text}; {meant.note}", meant.fix)
        case ModelAvailability.ELSEWHERE:
            return HealthFinding(about, Level.OK, f"{text}; {meant.note}", meant.fix)
        case ModelAvailability.BLOCKED:
            return HealthFinding(about, _bad(models, key), f"{text}; {meant.note}", meant.fix)


def _bad(models: ModelList, key: str) -> Level:
    """Without the model that does the work nothing runs; without the other one, keywords choose the specialist."""
    return Level.FAIL if key == models.default_key else Level.WARN


def _ollama(models: ModelList) -> Iterator[HealthFinding]:
    for found in models.ollama:
        if not found.running:
            extra = "; it is installed, and a run starts it if it may" if found.startable else "; it is not needed"
            yield _ok("ollama", f"does not answer at {found.base_url}{extra}")
            continue
        able = [card.name for card in found.models if card.chats and card.calls_tools]
        head = f"version {found.version} at {found.base_url}, {count_of(len(found.models), 'model')}"
        if able:
            yield _ok("ollama", f"{head}; these can call tools: {', '.join(able[:8])}")
        else:
            yield HealthFinding("ollama", Level.WARN, f"{head}, none that can call tools", "ollama pull qwen2.5:7b")


def _weights(entry: CatalogueEntry, *, needed: bool) -> HealthFinding:
    about, size = "embedded weights", f"{entry.size_bytes / 1e6:,.0f} MB"
    pull = f"fabric models pull {entry.called}"
    match entry.stored:
        case Stored.CHECKED:
            return _ok(about, f"{entry.name} is here, and its SHA-256 is right")
        case Stored.UNCHECKED:
            return HealthFinding(about, Level.WARN, f"{entry.name} is here, but was not checked yet", pull)
        case Stored.BEGUN | Stored.MISSING:
            begun = f"; {entry.begun_bytes / 1e6:,.0f} MB of it are here" if entry.begun_bytes else ""
            level = Level.WARN if needed else Level.OK
            return HealthFinding(about, level, f"{entry.name} is not downloaded ({size}){begun}", pull)


def _disk(entry: CatalogueEntry, free: int | None, folder: str, bad: Level) -> HealthFinding:
    if free is None:
        return _ok("disk", f"it is unknown how much is free for {folder}")
    here = entry.stored in (Stored.CHECKED, Stored.UNCHECKED)
    needed = 0 if here else entry.size_bytes - entry.begun_bytes + _SPARE_BYTES
    if free >= needed:
        return _ok("disk", f"{_gb(free)} free for models in {folder}")
    return HealthFinding(
        "disk",
        bad,
        f"only {_gb(free)} free in {folder}, and {entry.name} needs {_gb(needed)}",
        "Free some space, or keep models on another disk: export FABRIC_MODELS_DIR=/some/path",
    )


def _memory(entry: CatalogueEntry, facts: MachineFacts, *, loaded: bool, used: bool) -> HealthFinding:
    if facts.memory_bytes is None:
        return _ok("memory", "the amount is unknown")
    needed = entry.memory_bytes
    free = facts.memory_bytes if facts.memory_free_bytes is None else facts.memory_free_bytes
    head = f"{_gb(free)} free of {_gb(facts.memory_bytes)}"
    if loaded or free >= needed or not used:
        return _ok("memory", f"{head}; {entry.name} needs {_gb(needed)}")
    return HealthFinding(
        "memory",
        Level.WARN if facts.memory_bytes >= needed else Level.FAIL,
        f"{head}, but {entry.name} needs about {_gb(needed)}",
        "Close other programs, or take the smaller one: fabric models use fast",
    )


def _proxies(facts: MachineFacts) -> Iterator[HealthFinding]:
    if facts.proxies:
        shown = ", ".join(f"{scheme}: {address}" for scheme, address in facts.proxies.items())
        yield _ok("proxies", f"{shown}; this machine's own servers are always asked directly")


def _sandbox(box: SandboxStatus) -> HealthFinding:
    why = " ".join(box.problems)
    if box.level != "C":
        return _ok("sandbox", f"level {box.level}. {box.means} {why}".strip())
    return HealthFinding(
        "sandbox",
        Level.WARN,
        f"level C. {box.means} {why}".strip(),
        "Install bubblewrap; for tasks that you do not trust, use a container or a user of its own",
    )


def _size(count: int) -> str:
    return _gb(count) if count >= 10**9 else f"{count / 1e6:.0f} MB"


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
