"""Evaluations that an older program has stored can still be read."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.domain.evals.trials import Evidence, Grade, TrialOutcome
from agent_fabric.infrastructure.persistence.evals.evaluations import SqlEvalRepository, SqlTrialOutcomes
from agent_fabric.infrastructure.persistence.sql import SqlConnection
from agent_fabric.infrastructure.persistence.store import Store
from agent_fabric.testing.fakes import FrozenClock
from agent_fabric.wire.json_codec import dump_json, load_json
from contract.evals_contract import ONE, outcome, started


class Stored:
    """The tables of evaluations, and what an older program would have written into them."""

    def __init__(self, store: Store) -> None:
        clock = FrozenClock()
        self.store = store
        self.evals = SqlEvalRepository(store, clock)
        self.trials = SqlTrialOutcomes(store, clock)

    async def as_if_before(self, *, without: tuple[str, ...], also: Mapping[str, Any]) -> TrialOutcome:
        """Store an outcome as it was stored when it had other keys, and read it."""
        await self.evals.create(started())
        await self.trials.record(ONE, outcome("a", Grade.RIGHT))

        def rewrite(connection: SqlConnection) -> None:
            told = load_json(connection.execute("SELECT outcome FROM eval_trials").fetchone()[0])
            kept = {key: value for key, value in told.items() if key not in without}
            connection.execute("UPDATE eval_trials SET outcome = ?", (dump_json({**kept, **also}),))

        await self.store.write(rewrite)
        (found,) = await self.trials.read(ONE)
        return found


@pytest.fixture
async def stored(tmp_path: Path) -> AsyncIterator[Stored]:
    store = Store(tmp_path / "fabric.db")
    yield Stored(store)
    store.close()


@pytest.mark.parametrize(("proven", "evidence"), [(True, Evidence.PROVEN), (False, Evidence.UNPROVEN)])
async def test_an_outcome_from_before_there_were_kinds_of_evidence(
    stored: Stored, proven: bool, evidence: Evidence
) -> None:
    found = await stored.as_if_before(without=("evidence", "sent_back"), also={"proven": proven})
    assert (found.evidence, found.sent_back) == (evidence, False)
    assert (found.grade, found.seconds, found.steps, found.cost) == (Grade.RIGHT, 1.5, 3, 0.5)


async def test_an_outcome_that_says_nothing_about_evidence_is_unproven(stored: Stored) -> None:
    found = await stored.as_if_before(without=("evidence", "cached_tokens"), also={})
    assert (found.evidence, found.cached_tokens) == (Evidence.UNPROVEN, 0)
