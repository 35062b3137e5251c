"""Chooses who does a task."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field

from agent_fabric.application.packs.ask_routing_model import AskRoutingModel
from agent_fabric.application.ports.llm import Notice
from agent_fabric.application.ports.runs import Prepared
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, RecruitError
from agent_fabric.domain.events import Body, SpecialistsRecruited, TaskForceStarted
from agent_fabric.domain.ids import SpecialistId
from agent_fabric.domain.packs.recruitment import (
    SYSADMIN,
    Evidence,
    Recruitment,
    Specialist,
    about_machine,
    by_conversation,
    by_fallback,
    by_keywords,
    by_name,
    by_score,
    choosable,
    preferred_for_project,
    the_only_one,
    weigh,
)
from agent_fabric.domain.runs.task import Profile, Task, TaskForceMode


@dataclass(frozen=True, slots=True)
class RecruitSpecialists:
    """Use case: settle who does a task, offline whenever the task's words are clear."""

    specialists: Sequence[Specialist]
    """Every specialist, in the order of the configuration."""
    capabilities: Mapping[str, Sequence[str]]
    """The words that ask for each capability."""
    ask_model: AskRoutingModel | None = None
    """Settles what keywords leave open; None: the fallback rule does."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Packs that installed packages bring along but that cannot be had, each with a sentence that says why."""
    ambiguous: Collection[str] = ()
    """Keywords that do not tell who should do a task with a project folder."""
    has_nodes: Callable[[], Awaitable[bool]] | None = None
    """Tells whether there are machines to look after; None: there are none."""

    def __call__(self, task: Task, notice: Notice, *, project: bool = False) -> Prepared:
        """Make the choice ready; `project`: the run works on a project folder.

        Raises:
            RecruitError: a pack that the task names does not exist, or there is none at all.
        """
        self.require_known(task)
        if not self.specialists:
            raise RecruitError("No pack is configured", hint="Add one under `specialists` in the configuration.")
        if task.specialist_ids:
            return Prepared(self._recruited_bodies(task, by_name(task.specialist_ids)))
        if task.node:
            return Prepared(self._recruited_bodies(task, about_machine(task.node)))
        talks = task.profile is Profile.CHAT
        evidence = weigh(
            task.prompt, choosable(self.specialists), self.capabilities, project=project, ambiguous=self.ambiguous
        )
        choice = the_only_one(evidence) if not talks or len(evidence.specialists) == 1 else None
        if choice is None:
            in_words = talks and preferred_for_project(evidence) is None
            choice = by_keywords(evidence) if in_words else by_score(evidence)
        if choice is not None:
            return Prepared(self._recruited_bodies(task, choice))
        if talks and by_conversation(evidence, nodes=False) is not None:
            return Prepared((), lambda: self._for_conversation(task, evidence))
        if self.ask_model is None:
            return Prepared(self._recruited_bodies(task, _fallback(evidence, "keywords are not clear")))
        question = self.ask_model(task, evidence, notice)

        async def effect() -> Sequence[Body]:
            answer, choice, why = await question.effect()
            return (answer, *self._recruited_bodies(task, choice or _fallback(evidence, why)))

        return Prepared((question.called,), effect)

    async def _for_conversation(self, task: Task, evidence: Evidence) -> Sequence[Body]:
        try:
            nodes = self.has_nodes is not None and await self.has_nodes()
        except FabricError:  # who answers must not depend on whether a list can be read
            nodes = False
        choice = by_conversation(evidence, nodes=nodes)
        assert choice is not None  # the assistant is there
        return self._recruited_bodies(task, choice)

    def require_known(self, task: Task) -> None:
        """Make sure that the packs that a task names exist.

        Raises:
            RecruitError: one does not.
        """
        known = [each.specialist_id for each in self.specialists]
        needed = task.specialist_ids or ((SYSADMIN,) if task.node else ())
        if task.agent is not None:
            needed = (SpecialistId(task.agent.pack),) if task.agent.pack else ()
        unknown = [str(who) for who in needed if who not in known]
        for name in unknown:
            if name in self.left_out:
                raise RecruitError(self.left_out[name], hint="Repair that package, or uninstall it.")
        if unknown:
            raise RecruitError(
                f"There is no pack {', '.join(map(repr, unknown))}", hint=f"Known packs: {', '.join(known) or 'none'}."
            )

    def _recruited_bodies(self, task: Task, choice: Recruitment) -> tuple[Body, ...]:
        who = choice.specialist_ids
        parallel = len(who) > 1 and task.task_force_mode is TaskForceMode.PARALLEL
        if parallel:  # none is first: the order of the configuration is deterministic
            who = tuple(each.specialist_id for each in self.specialists if each.specialist_id in who)
        recruited = SpecialistsRecruited(
            specialist_id=who[0],
            specialist_ids=who,
            required_capabilities=choice.required_capabilities,
            routing_method=choice.method,
            is_task_force=len(who) > 1,
            reasons=choice.reasons,
        )
        return (
            (recruited, TaskForceStarted(specialist_ids=who, mode=task.task_force_mode)) if parallel else (recruited,)
        )


def _fallback(evidence: Evidence, why: str) -> Recruitment:
    choice = by_fallback(evidence, why)
    assert choice is not None  # there is at least one specialist
    return choice


def parse_pack_names(text: str) -> tuple[SpecialistId, ...]:
    """Return the packs that a person named: one, or several with commas between them."""
    return tuple(dict.fromkeys(SpecialistId(name) for part in text.split(",") if (name := part.strip())))
