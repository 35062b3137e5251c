"""Facts: what is remembered, on whose words, and who has agreed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.domain.errors import FactRefused, FactSettled
from agent_fabric.domain.events import Body, GuidanceGiven, ToolCalled, ToolReturned
from agent_fabric.domain.ids import CallId, FactId, RunId
from agent_fabric.domain.memory.facts import (
    EXPIRES_AFTER_S,
    MAX_PINNED_CHARS,
    Fact,
    FactKind,
    FactScope,
    FactStatus,
    accept_text,
    cited_facts,
    pinned_block,
)
from agent_fabric.domain.memory.learning import Learning, Quotable, check_quote, quotable_in, status_of_proposal
from agent_fabric.domain.memory.likeness import compare
from agent_fabric.domain.memory.markdown import export_facts, import_facts
from agent_fabric.domain.runs.task import Quoted
from contract.run_repository_contract import run_created

FACT = Fact(id=FactId("00000000000a"), owner="user:ada", text="The pool opens at 9", created_at=1.0)
ACTIVE = FACT.accept("user:ada", 100.0)
ADA = "user:ada"


def returned(tool: str, result: Mapping[str, Any], **more: Any) -> ToolReturned:
    return ToolReturned(tool=tool, result=result, call_id=CallId("c"), **more)


def test_an_accepted_fact_is_used_until_it_expires_or_is_retired() -> None:
    assert not FACT.is_usable(100.0)
    assert ACTIVE.is_usable(100.0 + EXPIRES_AFTER_S - 1)
    assert not ACTIVE.is_usable(100.0 + EXPIRES_AFTER_S)
    assert ACTIVE.is_expired(100.0 + EXPIRES_AFTER_S)
    assert ACTIVE.confirm(ADA, 200.0).is_usable(100.0 + EXPIRES_AFTER_S)
    retired = ACTIVE.retire("user:bob", 300.0)
    assert (retired.status, retired.valid_to, retired.reviewed_by) == (FactStatus.RETIRED, 300.0, "user:bob")
    assert not retired.is_usable(299.0)


def test_a_preference_does_not_expire() -> None:
    assert replace(FACT, kind=FactKind.PREFERENCE).accept(ADA, 1.0).is_usable(1e12)


@pytest.mark.parametrize("fact", [ACTIVE, ACTIVE.retire(ADA, 2.0), FACT.reject(ADA)])
def test_a_fact_is_reviewed_once(fact: Fact) -> None:
    with pytest.raises(FactSettled):
        fact.accept(ADA, 3.0)
    with pytest.raises(FactSettled):
        fact.reject(ADA)


@pytest.mark.parametrize(
    "text",
    ["", " \n", "x" * 401, "The key is ghp_" + "a1B2" * 8, "postgres://ada:Zk3vP9qLw2xR@db.example.org/fabric"],
)
@pytest.mark.proves("ME-12")
def test_what_is_empty_too_long_or_secret_is_refused(text: str) -> None:
    with pytest.raises(FactRefused):
        accept_text(text)


def test_a_fact_is_one_line() -> None:
    assert accept_text(" The pool\n opens  at 9 ") == "The pool opens at 9"


def test_citations_of_facts_are_found_once() -> None:
    assert cited_facts("At 9 [m:00000000000a], or 10 [m:00000000000b][m:00000000000a] [m:nope]") == (
        "00000000000a",
        "00000000000b",
    )


SAID = run_created("Remember: the pool opens at 9.")


def test_a_person_is_quoted_word_for_word() -> None:
    said = check_quote("the pool opens at 9", quotable_in(SAID, ADA))
    assert (said.said_by, said.is_person) == (ADA, True)
    for quote in ("the pool opens at 10", "The pool opens at 9", "pool", " "):
        with pytest.raises(FactRefused):
            check_quote(quote, quotable_in(SAID, ADA))


@pytest.mark.parametrize(
    "body",
    [
        replace(SAID, started_by="run-1"),
        replace(SAID, untrusted=("a webhook",)),
        GuidanceGiven(reason="unproven", message="the pool opens at 9"),
        ToolCalled(tool="read_file", args={"path": "the pool opens at 9"}, call_id=CallId("c")),
        returned("shell", {"stdout": "the pool opens at 9"}),
        returned("cross_run_search", {"runs": [{"summary": "the pool opens at 9"}]}),
    ],
)
@pytest.mark.proves("ME-9", "ME-11")
def test_what_no_person_or_document_said_cannot_be_quoted(body: Body) -> None:
    with pytest.raises(FactRefused):
        check_quote("the pool opens at 9", quotable_in(body, ADA))


def test_of_a_task_that_quotes_answers_only_the_own_words_count() -> None:
    body = replace(SAID, prompt="Earlier: the sauna is open. And now?", quotes=Quoted(own_words="And now, what else?"))
    with pytest.raises(FactRefused):
        check_quote("the sauna is open", quotable_in(body, ADA))
    assert check_quote("And now, what else?", quotable_in(body, ADA)).is_person


def test_documents_are_quoted_but_recalled_facts_are_not() -> None:
    page = returned("fetch_url", {"page": {"text": "the pool opens at 9"}}, origin="https://pool.example")
    assert check_quote("the pool opens at 9", quotable_in(page, ADA)) == Quotable(
        "the pool opens at 9", "https://pool.example", is_person=False
    )
    recalled = returned(
        "memory_search", {"passages": [{"text": "the pool opens at 9"}], "facts": [{"text": "it is deep"}]}
    )
    assert not check_quote("the pool opens at 9", quotable_in(recalled, ADA)).is_person
    with pytest.raises(FactRefused):
        check_quote("it is deep", quotable_in(recalled, ADA))


PERSON = Quotable("Please remember: the pool opens at 9.", ADA, is_person=True)
PAGE = Quotable("the pool opens at 9.", "a page", is_person=False)


@pytest.mark.parametrize(
    ("learning", "said", "text", "untrusted", "expected"),
    [
        (Learning.REVIEW, PERSON, "the pool opens at 9", (), FactStatus.PROPOSED),
        (Learning.AUTO, PERSON, "the pool opens at 9", (), FactStatus.ACTIVE),
        (Learning.AUTO, PERSON, "the pool opens at 10", (), FactStatus.PROPOSED),
        (Learning.AUTO, PERSON, "the pool opens at 9", ("a page",), FactStatus.PROPOSED),
        (Learning.AUTO, PAGE, "the pool opens at 9", (), FactStatus.PROPOSED),
    ],
)
def test_only_a_persons_own_words_need_no_review(
    learning: Learning, said: Quotable, text: str, untrusted: tuple[str, ...], expected: FactStatus
) -> None:
    assert status_of_proposal(learning, said, text, untrusted) is expected


def test_nothing_is_proposed_while_learning_is_off() -> None:
    with pytest.raises(FactRefused, match="off"):
        status_of_proposal(Learning.OFF, PERSON, "the pool opens at 9", ())


def test_the_same_again_is_a_duplicate_and_another_value_a_contradiction() -> None:
    assert compare("the POOL opens at 9!", [ACTIVE]).duplicate == ACTIVE
    assert compare("The pool opens at 10", [ACTIVE]) == (None, (ACTIVE,))
    assert compare("The pool never opens at 9", [ACTIVE]).duplicate is None
    assert compare("Otters like fish", [ACTIVE]) == (None, ())
    assert compare("The pool opens at 9", [ACTIVE.retire(ADA, 5.0), FACT.reject(ADA)]) == (None, ())


def test_the_pinned_block_is_stable_and_full_is_an_error() -> None:
    pinned = [
        replace(ACTIVE, pinned=True, id=FactId(f"{number:012x}"), created_at=float(-number)) for number in range(3)
    ]
    block = pinned_block([*pinned, ACTIVE], 101.0)
    assert block == pinned_block([ACTIVE, *reversed(pinned)], 101.0)
    assert block.splitlines()[1] == "- The pool opens at 9 [m:000000000002]"
    assert pinned_block([ACTIVE], 101.0) == ""
    with pytest.raises(FactRefused, match=f"{MAX_PINNED_CHARS:,}"):
        pinned_block([replace(each, text="x" * 400) for each in pinned * 2], 101.0)


def test_an_export_can_be_read_and_reads_back_the_same() -> None:
    facts = [
        replace(ACTIVE, source_run=RunId("r"), source_seq=3, source_quote="two\n\nlines --> -- é", said_by="ada -->"),
        replace(FACT, id=FactId("00000000000b"), scope=FactScope.AGENT, subject="writer", untrusted=("a page",)),
        replace(ACTIVE.retire("user:bob", 7.5), id=FactId("00000000000c"), supersedes=FACT.id, text="# <!-- [m:x] -->"),
    ]
    text = export_facts(facts)
    assert "- The pool opens at 9 [m:00000000000a]\n  > two\n  > \n  > lines --> -- é\n" in text
    assert import_facts(text) == facts
    assert export_facts(import_facts(text)) == text
    assert import_facts(export_facts([])) == []


@pytest.mark.parametrize("text", ["otters", "- text [m:00000000000a]", "- text [m:00000000000a]\n  <!-- {} -->"])
def test_what_is_no_export_is_refused(text: str) -> None:
    with pytest.raises(FactRefused, match="Line"):
        import_facts(text)
