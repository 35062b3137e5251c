"""Numbers in YAML mean the same in the configuration and in workflow files."""

import pytest

from agent_fabric.config.formats.yaml_text import parse_yaml
from agent_fabric.infrastructure.definitions.yaml_positions import read_yaml

NUMBERS = [
    *(
        "0",
        "7",
        "0777",
        "-012",
        "+3",
        "08",
        "1.5",
        ".5",
        "5.",
        "1e3",
        "1E-3",
        "-0.0",
        "1.5e+10",
        "123456789012345678901",
    ),
    *(
        "1:30",
        "1:30:00",
        "22:30",
        "190:20:30.15",
        "0x1F",
        "0b101",
        "0o17",
        "1_000",
        "1_000.5",
        "1e",
        "e3",
        "+",
        "-",
        ".",
    ),
]


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_is_the_same_in_configuration_and_workflow(text: str) -> None:
    (expected,) = read_yaml(f"- {text}")[0]
    (found,) = parse_yaml(f"- {text}")
    assert (type(found), found) == (type(expected), expected)


def test_old_forms_are_not_taken_for_other_numbers() -> None:
    assert parse_yaml("{a: 0777, b: 1:30, c: 1_000}") == {"a": 777, "b": "1:30", "c": "1_000"}
    assert parse_yaml("{a: true, b: yes, c: null, d: 2024-01-31}")["a"] is True
