"""A key means the same model for a moment."""

from dataclasses import dataclass, replace

from agent_fabric.application.ports.llm import ChosenModel, Notice
from agent_fabric.infrastructure.models.chooser import RecentChoices
from agent_fabric.testing.fakes import FrozenClock, quiet
from agent_fabric.testing.workbench import SETTINGS


@dataclass
class Counting:
    backend: str = "generic"
    count: int = 0

    async def choose(self, key: str, notice: Notice) -> ChosenModel:
        self.count += 1
        return ChosenModel(replace(SETTINGS, key=key, backend=self.backend, model=f"m{self.count}"), "")


async def test_a_choice_holds_for_a_moment_and_is_then_made_anew() -> None:
    inner, clock = Counting(), FrozenClock()
    choices = RecentChoices(inner, clock, lasts_s=10.0)
    assert [(await choices.choose("a", quiet)).settings.model for _ in range(3)] == ["m1", "m1", "m1"]
    assert (await choices.choose("b", quiet)).settings.model == "m2"
    clock.time += 10.0
    assert (await choices.choose("a", quiet)).settings.model == "m3"


async def test_a_model_that_a_person_switches_is_looked_up_each_time() -> None:
    choices = RecentChoices(Counting("managed"), FrozenClock())
    assert [(await choices.choose("a", quiet)).settings.model for _ in range(2)] == ["m1", "m2"]
