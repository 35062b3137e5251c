"""The doctor's judgement: what stops a task, what does not, and that every problem comes with a way out."""

from dataclasses import dataclass, field, replace

import pytest

from agent_fabric.application.models.list_models import MeantModel, ModelAvailability, ModelList
from agent_fabric.application.observability.check_health import CheckHealth, Egress, Need, SandboxStatus, can_run
from agent_fabric.application.ports.machine import MachineFacts
from agent_fabric.application.ports.models import CatalogueEntry, LoadedModel, OllamaFound, Shelf, Stored
from agent_fabric.domain.models.found_models import ModelCard
from agent_fabric.domain.models.messages import ModelSettings, ToolDialect
from agent_fabric.domain.observability.findings import HealthFinding, Level

GB = 10**9
FACTS = MachineFacts(
    python="3.11.7",
    platform="Linux x86_64",
    extras={"embedded": "1", "search": "1", "embeddings": None, "telemetry": None},
    has_avx2=True,
    memory_bytes=8 * GB,
    memory_free_bytes=6 * GB,
    proxies={},
)
ENTRY = CatalogueEntry(
    sha256="0" * 64,
    name="small",
    profile="quality",
    called="quality",
    size_bytes=GB,
    memory_bytes=1_400_000_000,
    licence="Apache-2.0",
    context_window=32768,
    parameters_b=1.5,
    dialect=ToolDialect.SCHEMA,
    path="/m/small.gguf",
    stored=Stored.CHECKED,
)
SETTINGS = ModelSettings(
    key="quality",
    backend="embedded",
    base_url="embedded:",
    model="small",
    temperature=0.1,
    top_p=0.9,
    max_tokens=100,
    timeout_s=1.0,
    connect_timeout_s=1.0,
)
MEANT = MeantModel(
    key="quality", settings=SETTINGS, why="embedded; no Ollama answers", standing=ModelAvailability.READY
)
NO_OLLAMA = OllamaFound("http://localhost:11434/v1", running=False)
STAYS = Egress(offline=False, fallback=None, traces=None)


@dataclass(frozen=True)
class PretendMachine:
    found: MachineFacts = FACTS
    free: int | None = 50 * GB
    free_here: int = 50 * GB
    """On the disk of the fabric folder."""
    writable: bool = True
    asked: list[str] = field(default_factory=list)

    def facts(self) -> MachineFacts:
        return self.found

    def free_bytes(self, path: str) -> int | None:
        self.asked.append(path)
        return self.free_here if path == "/r" else self.free

    def may_write(self, path: str) -> bool:
        return self.writable


def examined(
    machine: PretendMachine,
    *,
    meant: MeantModel = MEANT,
    entry: CatalogueEntry = ENTRY,
    ollama: OllamaFound = NO_OLLAMA,
    loaded: tuple[LoadedModel, ...] = (),
    egress: Egress = STAYS,
    needs: dict[str, Need] | None = None,
) -> dict[str, HealthFinding]:
    """Return the findings, by what they are about; of several, the worst."""
    models = ModelList(
        default_key="quality",
        routing_key="quality",
        keys=(meant,),
        ollama=(ollama,),
        shelf=Shelf(folder="/m", runtime="1", catalogue=(entry,), files=(), loaded=loaded),
    )
    check = CheckHealth(
        machine=machine,
        root="/r",
        box=SandboxStatus("C", "Commands run with your rights."),
        egress=egress,
        needs=needs or {},
    )
    findings = check(models)
    assert all(finding.fix for finding in findings if finding.level is not Level.OK), "every problem has a way out"
    return {finding.about: finding for finding in sorted(findings, key=lambda each: list(Level).index(each.level))}


def ok(findings: dict[str, HealthFinding]) -> bool:
    return can_run(list(findings.values()))


def test_a_good_machine_can_run_a_task() -> None:
    findings = examined(PretendMachine())
    assert ok(findings)
    assert {finding.about for finding in findings.values() if finding.level is not Level.OK} == {"sandbox"}


@pytest.mark.parametrize(
    ("machine", "about"),
    [
        (PretendMachine(writable=False), "fabric folder"),
        (PretendMachine(replace(FACTS, has_avx2=False)), "processor"),
        (PretendMachine(replace(FACTS, memory_bytes=GB, memory_free_bytes=GB // 2)), "memory"),
    ],
)
def test_what_makes_the_embedded_model_impossible_stops_a_task(machine: PretendMachine, about: str) -> None:
    findings = examined(machine)
    assert not ok(findings)
    assert [each.about for each in findings.values() if each.level is Level.FAIL] == [about]


def test_a_full_disk_matters_only_while_something_must_be_downloaded() -> None:
    full = PretendMachine(free=GB // 2)
    assert ok(examined(full))
    missing = examined(full, entry=replace(ENTRY, stored=Stored.MISSING))
    assert missing["disk"].level is Level.FAIL
    assert "FABRIC_MODELS_DIR" in missing["disk"].fix
    begun = examined(full, entry=replace(ENTRY, stored=Stored.BEGUN, begun_bytes=9 * GB // 10))
    assert begun["disk"].level is Level.OK
    assert full.asked == ["/r", "/m"] * 3


def test_little_free_memory_is_a_warning_unless_the_model_is_loaded_already() -> None:
    tight = PretendMachine(replace(FACTS, memory_free_bytes=GB))
    assert examined(tight)["memory"].level is Level.WARN
    server = LoadedModel(
        key="k",
        name="small",
        path=ENTRY.path,
        pid=7,
        loading=False,
        context_window=8192,
        slots=1,
        in_use=True,
        idle_for_s=0.0,
        idle_s=300.0,
        memory_bytes=GB,
    )
    findings = examined(tight, loaded=(server,))
    assert findings["memory"].level is Level.OK
    assert "process 7" in findings["embedded server"].text


def test_a_machine_that_is_too_small_for_the_embedded_model_can_use_another() -> None:
    elsewhere = replace(MEANT, settings=replace(SETTINGS, backend="generic", base_url="http://localhost:8000/v1"))
    poor = PretendMachine(replace(FACTS, has_avx2=False, memory_bytes=GB, memory_free_bytes=1), free=1)
    assert ok(examined(poor, meant=elsewhere, entry=replace(ENTRY, stored=Stored.MISSING)))


def test_a_system_that_tells_nothing_stops_nothing() -> None:
    unknown = replace(FACTS, has_avx2=None, memory_bytes=None, memory_free_bytes=None)
    assert ok(examined(PretendMachine(unknown, free=None)))


def test_a_missing_part_is_a_problem_only_for_who_needs_it() -> None:
    bare = replace(FACTS, extras=dict.fromkeys(FACTS.extras))
    findings = examined(PretendMachine(bare))
    assert findings["extra embedded"].level is Level.WARN
    assert findings["extra search"].level is Level.OK
    assert 'pip install "agent-fabric[search]"' in findings["extra search"].fix


@pytest.mark.parametrize("settings", [None, SETTINGS])
def test_a_model_that_cannot_be_used_stops_a_task(settings: ModelSettings | None) -> None:
    blocked = replace(
        MEANT, settings=settings, standing=ModelAvailability.BLOCKED, note="it is gone", fix="fabric models use X"
    )
    assert not ok(examined(PretendMachine(), meant=blocked))


def test_an_ollama_without_usable_models_is_said() -> None:
    running = OllamaFound("http://x/v1", running=True, version="1", models=(ModelCard(name="e", chats=False),))
    assert examined(PretendMachine(), ollama=running)["ollama"].fix == "ollama pull qwen2.5:7b"


def test_what_leaves_the_machine_is_said_and_offline_ends_it() -> None:
    leaking = Egress(offline=False, fallback="`cloud`, always", traces="http://t:4318")
    assert examined(PretendMachine(), egress=leaking)["privacy"].level is Level.WARN
    assert examined(PretendMachine(), egress=replace(leaking, offline=True))["privacy"].level is Level.OK


@pytest.mark.proves("DU-5")
@pytest.mark.parametrize(("free", "level"), [(50 * GB, Level.OK), (GB // 2, Level.WARN), (GB // 100, Level.FAIL)])
def test_the_disk_of_the_fabric_folder_counts(free: int, level: Level) -> None:
    machine = PretendMachine(free=None, free_here=free)
    finding = examined(machine)["fabric folder"]
    assert (finding.level, machine.asked[0]) == (level, "/r")
    assert "free on its disk" in finding.text


@pytest.mark.proves("DU-5")
@pytest.mark.parametrize("by_all", [False, True])
def test_an_extra_that_the_configuration_needs_is_missed(by_all: bool) -> None:
    bare = PretendMachine(replace(FACTS, extras={"mcp": None, "browser": None}))
    findings = examined(bare, needs={"mcp": Need("the tool servers docs", by_all=by_all)})
    assert findings["extra browser"].level is Level.OK
    missed = findings["extra mcp"]
    assert (missed.level, ok(findings)) == ((Level.FAIL, False) if by_all else (Level.WARN, True))
    assert "the tool servers docs" in missed.text
    assert "agent-fabric[mcp]" in missed.fix


@pytest.mark.proves("DU-5")
def test_a_model_that_called_no_tools_when_it_was_probed_cannot_do_tasks() -> None:
    meant = replace(MEANT, calls_no_tools=True, note="it called no tools", fix="fabric models use NAME")
    findings = examined(PretendMachine(), meant=meant)
    assert (findings["model quality"].level, ok(findings)) == (Level.FAIL, False)
    assert "it called no tools" in findings["model quality"].text
