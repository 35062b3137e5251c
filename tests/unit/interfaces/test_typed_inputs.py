"""Inputs as they are typed."""

from pathlib import Path

import pytest

from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.interfaces.cli.workflows.inputs import typed_inputs

DECLARED = {"text": Parameter(type="string"), "n": Parameter(type="integer")}


def test_a_value_is_taken_as_it_is_whatever_it_holds(tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    file.write_text("from a file\n", encoding="utf-8")
    assert typed_inputs(["text=a=b {{ x }} 'ü'", "n=3"], DECLARED, of="It") == {"text": "a=b {{ x }} 'ü'", "n": 3}
    assert typed_inputs([f"text=@{file}"], DECLARED, of="It") == {"text": "from a file\n"}
    assert typed_inputs(["text=@@home"], DECLARED, of="It") == {"text": "@home"}


@pytest.mark.parametrize("pair", ["text=a\udcff", "te\udcffxt=a"])
def test_what_is_no_text_is_refused_and_not_changed(pair: str) -> None:
    with pytest.raises(InvalidInputs, match="is not UTF-8 text") as refused:
        typed_inputs([pair], DECLARED, of="It")
    refused.value.message.encode()
