"""Sentences are traced to the results that have what they say."""

import pytest

from agent_fabric.domain.runs.provenance import trace_sentences
from agent_fabric.domain.runs.state import Observation

SEEN = [
    Observation(4, '{"stdout": "Filesystem  Use%\\n/dev/sda1  97% /var\\n"}'),
    Observation(7, '{"files": ["/var/log/journal/system.log"], "bytes": 48213991}'),
    Observation(9, '{"text": "The journal keeps at most ten gigabytes unless SystemMaxUse says otherwise."}'),
]


def traced(answer: str) -> list[tuple[str, tuple[int, ...], tuple[str, ...]]]:
    found = trace_sentences(answer, SEEN, ["Why is the disk on web-3.example full?"])
    return [(answer[each.start : each.end], each.events, each.missing) for each in found]


@pytest.mark.proves("CO-23")
def test_a_sentence_names_the_events_that_it_rests_on() -> None:
    answer = (
        "Sure, let me explain! The disk is 97% full. "
        "Most of it is `/var/log/journal/system.log` with 48,213,991 bytes.\n"
        "- The journal keeps at most ten gigabytes unless told otherwise.\n"
        "I deleted 512 files in /etc/cron.d.\n"
        "```sh\njournalctl --vacuum-size=2147483648\n```\n"
        "Shall I clean it up?"
    )
    assert traced(answer) == [
        ("The disk is 97% full.", (4,), ()),
        ("Most of it is `/var/log/journal/system.log` with 48,213,991 bytes.", (7,), ()),
        ("The journal keeps at most ten gigabytes unless told otherwise.", (9,), ()),
        ("I deleted 512 files in /etc/cron.d.", (), ("512", "/etc/cron.d")),
    ]


def test_what_the_person_has_said_needs_no_other_ground() -> None:
    assert traced("I looked at web-3.example for you.") == []


def test_an_answer_that_is_not_prose_is_no_problem() -> None:
    assert traced("") == []
    assert traced("```\n" * 1_000) == []
    assert trace_sentences("1234. " * 5_000, [], []) != []
