"""How many model answers a run may take, by whom it is asked of."""

import pytest
from pydantic import ValidationError

from agent_fabric.application.runs.new_task import task_from
from agent_fabric.config.defaults import default_config
from agent_fabric.config.schema.specialists import SpecialistConfig


@pytest.mark.proves("FL-25")
def test_the_administrator_of_machines_takes_fifteen_steps_and_others_as_many_as_the_budget_says() -> None:
    config = default_config()
    assert task_from(config, "look", pack="sysadmin").budget.max_steps == 15
    assert task_from(config, "look", pack="engineering").budget.max_steps == config.budget.max_steps
    assert task_from(config, "look", pack="sysadmin,engineering").budget.max_steps == config.budget.max_steps
    assert task_from(config, "look").budget.max_steps == config.budget.max_steps


@pytest.mark.proves("FL-25")
def test_no_specialist_has_a_limit_of_more_than_fifty() -> None:
    assert SpecialistConfig(description="x", max_steps=50).max_steps == 50
    with pytest.raises(ValidationError):
        SpecialistConfig(description="x", max_steps=51)
