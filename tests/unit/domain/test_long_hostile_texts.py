"""What people, models and programs write is read in time that grows with its length, whatever it consists of.

There is no clock here: a pattern that grows with the square takes minutes for these texts, and nobody would miss it.
"""

import pytest

from agent_fabric.config.secret_references import hide_passwords
from agent_fabric.domain.evidence.asked_for import asked_for
from agent_fabric.domain.evidence.claims import Deeds, false_claims
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.evidence.proofs import NO_PROOF
from agent_fabric.domain.evidence.suite_counts import count_told_in
from agent_fabric.domain.models.dialects.call_text import read_calls
from agent_fabric.domain.packs.recruitment import weigh
from agent_fabric.domain.runs.provenance import trace_sentences

LENGTH = 200_000
UNITS = ("-", "a-", "a", "0", "/", "a/", ".", "a.", " ", "\n", "`", "_", ", ", "http://")


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_a_long_text_of_one_thing_is_read(unit: str) -> None:
    text = unit * (LENGTH // len(unit))
    weigh(text, (), {})
    trace_sentences(text, (), ())
    asked_for(f"make {text}")
    false_claims(
        {"summary": text},
        Deeds(prompt="Fix a.py", compared=WorkspaceCompared(), commands=(), last_change=1, proof=NO_PROOF),
    )
    assert count_told_in(text) is None
    read_calls(f"```{text}", {})
    hide_passwords(text)
