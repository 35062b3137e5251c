"""The sessions of the evaluation are made from a seed, cover all abilities, and know their answers."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ABILITIES = {"extraction", "several sessions", "time", "updates", "abstention", "German", "Chinese", "poison"}


def generator() -> ModuleType:
    path = Path(__file__).parents[4] / "benchmarks" / "memory_sessions.py"
    spec = spec_from_file_location("memory_sessions", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.proves("ME-16")
def test_the_same_seed_makes_the_same_sessions_and_every_answer_is_one_of_them() -> None:
    made = generator().make_sessions
    sessions, asked = made(seed=21, count=200)
    assert (sessions, asked) == made(seed=21, count=200) != made(seed=22, count=200)
    assert len(sessions) >= 200
    assert {each.ability for each in asked} == ABILITIES
    for each in asked:
        assert bool(each.answers) is (each.ability != "abstention")
        assert all(0 <= answer < len(sessions) for answer in each.answers)
