"""Who does a task with a project folder: the pack that works on it, unless the task clearly is something else."""

from collections.abc import Sequence

import pytest

from agent_fabric.application.models.model_turn import ModelTurn
from agent_fabric.application.packs.ask_routing_model import AskRoutingModel
from agent_fabric.application.packs.recruit import RecruitSpecialists
from agent_fabric.bootstrap.local import packs_for_projects, specialists_of
from agent_fabric.config.defaults import default_config
from agent_fabric.config.schema.specialists import SpecialistConfig
from agent_fabric.domain.events import SpecialistsRecruited
from agent_fabric.domain.ids import SpecialistId
from agent_fabric.domain.models.messages import LLMResponse, Message
from agent_fabric.domain.packs.recruitment import (
    Recruitment,
    Specialist,
    by_fallback,
    by_model,
    by_score,
    the_only_one,
    weigh,
)
from agent_fabric.domain.runs.task import Budget, Task
from agent_fabric.domain.tools.capabilities import AMBIGUOUS_ON_PROJECTS, CAPABILITY_KEYWORDS
from agent_fabric.testing.fakes import FrozenClock, FunctionClient, OneModel, quiet
from agent_fabric.testing.workbench import SETTINGS

ENGINEERING, RESEARCH, EARLIER = ("engineering",), ("research",), ("enterprise_research",)
LEFT_OPEN = ()
"""The routing model is asked; without it, engineering does it."""

EVERYDAY = [
    ("Summarise calc.py", ENGINEERING),
    ("summarize this project", ENGINEERING),
    ("Give me an overview of the code", ENGINEERING),
    ("Explain what this does", ENGINEERING),
    ("hello", ENGINEERING),
    ("What is in this folder?", ENGINEERING),
    ("Compare parser.py and parser_old.py and tell me the differences", ENGINEERING),
    ("Compare the two configuration files", ENGINEERING),
    ("Find out why the build is slow", ENGINEERING),
    ("Find out who calls load_config", ENGINEERING),
    ("Have we got tests for the parser?", ENGINEERING),
    ("Did we forget to close the file handle?", ENGINEERING),
    ("What did we change in the last commit?", ENGINEERING),
    ("Last time the numbers were rounded; make it so again", ENGINEERING),
    ("Use our own logger instead of print", ENGINEERING),
    ("Study the sources and draw the module graph into docs/graph.md", ENGINEERING),
    ("Survey the TODO comments and list them", ENGINEERING),
    ("Is there evidence that the cache is ever used?", ENGINEERING),
    ("Add type hints", ENGINEERING),
    ("Rename Foo to Bar everywhere", ENGINEERING),
    ("Write a README", ENGINEERING),
    ("Translate README.md to German", ENGINEERING),
    ("Fix the typo in docs/index.md", ENGINEERING),
    ("Update the copyright year", ENGINEERING),
    ("make the tests pass", ENGINEERING),
    ("Refactor main() into smaller functions", ENGINEERING),
    ("Why does it crash on an empty line?", ENGINEERING),
    ("Bump the version to 1.2 and write the changelog", ENGINEERING),
    ("Summarise paper.tex in one paragraph", ENGINEERING),
    ("Review my changes", ENGINEERING),
    ("Turn data.csv into a table sorted by date", ENGINEERING),
    ("Fix the bug from https://example.com/issues/5: a traceback in the API", ENGINEERING),
    ("research the web for the best way to parse dates", RESEARCH),
    ("Search the web for alternatives to argparse", RESEARCH),
    ("Write a systematic review of rate limiting algorithms", RESEARCH),
    ("What does the literature say about caffeine and sleep? Cite your sources.", RESEARCH),
    ("Summarise https://example.com/article", RESEARCH),
    ("What is the state of the art in speech recognition?", RESEARCH),
    ("What did earlier runs find out about the deploy problem?", EARLIER),
    ("Look at the run history and the previous findings on caching", EARLIER),
    ("Research why the tests fail", ENGINEERING),
    ("Read https://example.com/spec", LEFT_OPEN),
    (
        "Do a literature review of the evidence on rate limiting with citations, then implement the best one as a "
        "Python library with a function and a unit test.",
        RESEARCH + ENGINEERING,
    ),
]


def built_in() -> list[Specialist]:
    return specialists_of(default_config().specialists)


@pytest.mark.proves("DU-2")
@pytest.mark.parametrize(("prompt", "who"), EVERYDAY, ids=[prompt[:50] for prompt, _ in EVERYDAY])
def test_everyday_tasks_with_a_project_folder(prompt: str, who: tuple[str, ...]) -> None:
    evidence = weigh(prompt, built_in(), CAPABILITY_KEYWORDS, project=True, ambiguous=AMBIGUOUS_ON_PROJECTS)
    choice = by_score(evidence)
    assert (choice.specialist_ids if choice else LEFT_OPEN) == who
    if choice is None:
        fallback = by_fallback(evidence, "no model")
        assert fallback is not None
        assert fallback.specialist_ids == ENGINEERING


@pytest.mark.proves("DU-2")
@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize(("prompt", "_who"), EVERYDAY, ids=[prompt[:50] for prompt, _ in EVERYDAY])
def test_what_is_said_about_a_choice_is_not_contradictory(prompt: str, _who: tuple[str, ...], project: bool) -> None:
    people = built_in()
    evidence = weigh(prompt, people, CAPABILITY_KEYWORDS, project=project, ambiguous=AMBIGUOUS_ON_PROJECTS)
    for choice in (
        by_score(evidence),
        by_model(evidence, ["research"]),
        by_model(evidence, ["engineering"]),
        by_fallback(evidence, "no model"),
        the_only_one(weigh(prompt, people[:1], CAPABILITY_KEYWORDS, project=project)),
    ):
        if choice is not None:
            require_consistent(choice, people)


def require_consistent(choice: Recruitment, people: Sequence[Specialist]) -> None:
    said = " / ".join(choice.reasons)
    able = {name for each in people if each.specialist_id in choice.specialist_ids for name in each.capabilities}
    for capability in choice.required_capabilities:
        assert capability in able or f"{capability} " in said or f"{capability}," in said, said
    found = [reason for reason in choice.reasons if reason.startswith(("engineering: ", "research: "))]
    if "no keyword was found" in choice.reasons:
        assert not found
        assert not choice.required_capabilities
    if "works on the project folder" in said:
        assert choice.specialist_ids == ENGINEERING


class Routing:
    """Recruits with a routing model that always says research, and remembers what it was asked."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    async def __call__(self, prompt: str, *, project: bool = True) -> SpecialistsRecruited:
        async def answer(messages: Sequence[Message]) -> LLMResponse:
            self.questions.append(messages[0].content)
            return LLMResponse(content="research")

        recruit = RecruitSpecialists(
            built_in(),
            CAPABILITY_KEYWORDS,
            AskRoutingModel(ModelTurn(FunctionClient(answer), FrozenClock()), OneModel(SETTINGS), "fast"),
            ambiguous=AMBIGUOUS_ON_PROJECTS,
        )
        task = Task(prompt=prompt, model_key="quality", budget=Budget(max_steps=5))
        prepared = recruit(task, quiet, project=project)
        bodies = [*prepared.bodies, *(await prepared.effect() if prepared.effect else ())]
        assert isinstance(bodies[-1], SpecialistsRecruited)
        return bodies[-1]


@pytest.mark.proves("DU-2")
async def test_a_model_is_asked_only_about_tasks_that_may_be_for_another_and_is_told_of_the_folder() -> None:
    routing = Routing()
    plain = await routing("Explain what this does")
    assert (plain.specialist_ids, plain.routing_method, routing.questions) == (ENGINEERING, "project", [])
    open_one = await routing("Read https://example.com/spec")
    assert (open_one.specialist_ids, open_one.routing_method) == (RESEARCH, "model")
    assert "engineering works on its files" in routing.questions[0]
    await routing("literature on refactoring", project=False)
    assert "project folder" not in routing.questions[1]


def pack(*capabilities: str, builder: str | None = None) -> SpecialistConfig:
    return SpecialistConfig(description="Works.", capabilities=capabilities, builder=builder)


@pytest.mark.proves("DU-2")
def test_the_packs_for_projects_are_those_for_software_else_those_with_a_builder() -> None:
    own = pack(builder="team.packs:build")
    assert packs_for_projects(default_config().specialists) == {"engineering"}
    assert packs_for_projects({"writer": own, "frontend": pack("software"), "research": pack()}) == {"frontend"}
    assert packs_for_projects({"writer": own, "research": pack("web_research")}) == {"writer"}


@pytest.mark.parametrize(
    ("prompt", "who"),
    [("Fix the css of the button", "frontend"), ("Fix it", "engineering"), ("Send the invoice for May", "billing")],
)
def test_keywords_choose_among_the_packs_for_projects_and_for_packs_of_the_team(prompt: str, who: str) -> None:
    people = [
        Specialist(
            specialist_id=SpecialistId("frontend"),
            description="",
            keywords=("css", "button"),
            capabilities=("software",),
            works_on_projects=True,
        ),
        *built_in(),
        Specialist(specialist_id=SpecialistId("billing"), description="", keywords=("invoice",)),
    ]
    choice = by_score(weigh(prompt, people, CAPABILITY_KEYWORDS, project=True, ambiguous=AMBIGUOUS_ON_PROJECTS))
    assert choice is not None
    assert choice.specialist_ids == (who,)
