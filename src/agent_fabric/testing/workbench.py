"""The real engine on stand-ins: run a pack with a scripted model in a test, without disk or network."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from agent_fabric.application.models.model_turn import ModelTurn
from agent_fabric.application.packs.recruit import RecruitSpecialists
from agent_fabric.application.ports.memory import ContextSource
from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.runs import Workspaces
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.application.runs.drive_run import DriveRun
from agent_fabric.application.runs.execute_task import ExecuteTask
from agent_fabric.application.runs.perform import Perform
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.application.tools.invoke_tool import InvokeTool
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings
from agent_fabric.domain.packs.recruitment import Specialist
from agent_fabric.domain.policy.calls import Policy
from agent_fabric.domain.runs.task import Budget, Profile, RunResult, Task, TaskForceMode
from agent_fabric.domain.tools.allowlists import NO_ALLOWLISTS, Allowlists
from agent_fabric.testing.fakes import (
    CountingIds,
    FrozenClock,
    FunctionClient,
    ListSink,
    MemoryRuns,
    MemoryWorkspaces,
    OneModel,
    PackBuilders,
    PermissivePolicy,
)

SETTINGS = ModelSettings(
    key="quality",
    backend="generic",
    base_url="http://model.invalid/v1",
    model="scripted",
    temperature=0.0,
    top_p=1.0,
    max_tokens=512,
    timeout_s=30.0,
    connect_timeout_s=1.0,
)

BuildPack = Callable[[str], SpecialistPack]
"""Makes a pack for a workspace."""
Answer = Callable[[Sequence[Message]], Awaitable[LLMResponse]]


@dataclass(frozen=True, slots=True)
class Workbench:
    """Use cases on stand-ins, and the stand-ins to look at."""

    execute_task: ExecuteTask
    resume_run: ResumeRun
    cancel_run: CancelRun
    runs: MemoryRuns
    sink: ListSink
    clock: FrozenClock

    async def run(
        self,
        prompt: str = "do it",
        *,
        profile: Profile = Profile.TASK,
        packs: Sequence[str] = (),
        mode: TaskForceMode = TaskForceMode.SEQUENTIAL,
        **budget: int,
    ) -> RunResult:
        """Do a task and return what came of it."""
        task = Task(
            prompt=prompt,
            specialist_ids=tuple(map(SpecialistId, packs)),
            task_force_mode=mode,
            model_key="quality",
            profile=profile,
            budget=Budget.of(profile, **budget),
        )
        return await self.execute_task(task)

    def kinds(self) -> list[str]:
        """Return the kinds of the newest run's events, in order."""
        return [event.body.kind for event in list(self.runs.logs.values())[-1]]


def workbench(  # noqa: PLR0913 - each is a part that a test may want to replace
    pack: BuildPack | Mapping[str, BuildPack],
    answer: Answer,
    *,
    settings: ModelSettings = SETTINGS,
    runs: MemoryRuns | None = None,
    workspaces: Workspaces | None = None,
    max_output_chars: int = 16_000,
    policy: Policy | None = None,
    injection_signals: Callable[[str], tuple[str, ...]] = lambda _: (),
    allowlists: Allowlists = NO_ALLOWLISTS,
    context: ContextSource | None = None,
) -> Workbench:
    """Join the real engine with one or several packs, a model given as a function, and stand-ins for the rest."""
    runs = MemoryRuns() if runs is None else runs
    workspaces = MemoryWorkspaces() if workspaces is None else workspaces
    clock, sink = FrozenClock(tick=0.001), ListSink()
    packs = pack if isinstance(pack, Mapping) else {"testing": pack}
    registry = PackBuilders({SpecialistId(name): build for name, build in packs.items()})
    perform = Perform(
        registry=registry,
        recruit=RecruitSpecialists([Specialist(specialist_id=name, description="") for name in registry.names()], {}),
        models=OneModel(settings),
        model_turn=ModelTurn(FunctionClient(answer), clock),
        invoke_tool=InvokeTool(
            policy or PermissivePolicy(),
            clock,
            max_output_chars,
            injection_signals=injection_signals,
            allowlists=allowlists,
        ),
        context=None if context is None else lambda: context,
    )
    drive = DriveRun(perform, clock, sink)
    return Workbench(
        execute_task=ExecuteTask(
            runs=runs,
            workspaces=workspaces,
            recruit=perform.recruit,
            drive=drive,
            clock=clock,
            ids=CountingIds(),
            sandbox_level="none",
            policy_version="testing",
            fabric_version="testing",
            injection_signals=injection_signals,
        ),
        resume_run=ResumeRun(
            runs=runs, workspaces=workspaces, registry=registry, drive=drive, end_leftovers=_nothing_left, driver="test"
        ),
        cancel_run=CancelRun(runs, clock),
        runs=runs,
        sink=sink,
        clock=clock,
    )


async def _nothing_left(run_id: RunId, workspace: str) -> int:  # noqa: ARG001 - as the sandbox's
    return 0
