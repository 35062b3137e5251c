"""What `fabric doctor` makes of what a database server says about itself."""

from dataclasses import replace

import pytest

from agent_fabric.application.observability.check_database import check_database
from agent_fabric.application.observability.check_health import can_run
from agent_fabric.application.ports.database import DatabaseFacts
from agent_fabric.domain.observability.findings import Level

GOOD = DatabaseFacts(
    place="PostgreSQL at db, database fabric",
    version="15.8",
    encoding="UTF8",
    format=12,
    min_writer=12,
    known_format=12,
    is_standby=False,
    synchronous_commit="on",
    fsync=True,
    asynchronous_standbys=0,
    max_connections=97,
)


def test_a_good_server_is_one_line() -> None:
    (finding,) = check_database(GOOD, pool=8)
    assert finding.level is Level.OK
    assert "PostgreSQL 15.8, format 12" in finding.text


@pytest.mark.parametrize(
    ("facts", "words", "fix"),
    [
        (replace(GOOD, encoding="LATIN1"), "stores text as LATIN1", "createdb --encoding UTF8"),
        (replace(GOOD, is_standby=True), "is a standby", "primary"),
        (replace(GOOD, format=0), "has no tables yet", "fabric db migrate"),
        (replace(GOOD, format=11), "has format 11; this program needs 12", "fabric db migrate"),
        (replace(GOOD, format=13, min_writer=13), "newer agent-fabric", "Upgrade"),
    ],
)
def test_what_makes_runs_impossible_is_a_failure(facts: DatabaseFacts, words: str, fix: str) -> None:
    (finding,) = check_database(facts, pool=8)
    assert (finding.level, can_run([finding])) == (Level.FAIL, False)
    assert words in finding.text
    assert fix in finding.fix


@pytest.mark.parametrize(
    ("facts", "pool", "words"),
    [
        (replace(GOOD, synchronous_commit="off"), 8, "synchronous_commit is off"),
        (replace(GOOD, synchronous_commit="local"), 8, "a failover loses the last ones"),
        (replace(GOOD, asynchronous_standbys=2), 8, "2 standbys may lag behind"),
        (replace(GOOD, fsync=False), 8, "fsync is off"),
        (GOOD, 98, "the server admits 97 connections"),
        (GOOD, 49, "no room for a second one"),
    ],
)
def test_what_may_lose_something_is_a_warning(facts: DatabaseFacts, pool: int, words: str) -> None:
    good, finding = check_database(facts, pool=pool)
    assert (good.level, finding.level) == (Level.OK, Level.WARN)
    assert words in finding.text
    assert finding.fix


def test_a_newer_program_whose_tables_this_one_may_use_is_a_warning() -> None:
    good, warned = check_database(replace(GOOD, format=13), pool=8)
    assert (good.level, warned.level) == (Level.OK, Level.WARN)
    assert "a newer agent-fabric has lifted the tables to format 13" in warned.text


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (replace(GOOD, pgvector="0.8.0"), "vectors by pgvector 0.8.0"),
        (
            replace(GOOD, pgvector="0.6.2", has_passage_vectors=False),
            "those of documents by each process (pgvector 0.7",
        ),
        (replace(GOOD, has_vectors=False, has_passage_vectors=False), "CREATE EXTENSION vector"),
        (replace(GOOD, has_vectors=False, has_passage_vectors=False, offers_vectors=False), "install it on the server"),
    ],
)
def test_it_says_who_compares_vectors_and_what_would_change_that(facts: DatabaseFacts, words: str) -> None:
    (finding,) = check_database(facts, pool=8)
    assert finding.level is Level.OK
    assert words in finding.text
