"""How far a call reaches, as far as its arguments tell."""

import time
from typing import Any

import pytest

from agent_fabric.domain.approvals.blast_radius import BlastRadius, blast_radius
from agent_fabric.domain.policy.outside_plan import Outside


def radius(args: dict[str, Any], *, rule: str = "deletes", sandbox: str = "A", **more: Any) -> BlastRadius:
    return blast_radius(args, rule=rule, sandbox=sandbox, **{"destination": "", "outside": None, **more})


@pytest.mark.proves("CO-24")
def test_files_hosts_and_nodes_are_named_and_the_way_back_is_told() -> None:
    found = radius({"command": "rm -r build notes.md && curl https://api.example.org/x > out/result.json"})
    assert found.files == ("build", "notes.md", "out/result.json")
    assert found.hosts == ("api.example.org",)
    assert found.reversible
    assert found.why == "the workspace; changes can be taken back"

    pushed = Outside(words=("/usr/bin/git", "push"), account="me@laptop", goes_to="ssh://git@code.example.net/a.git")
    sent = radius({"command": "git push"}, outside=pushed)
    assert sent.hosts == ("code.example.net",)
    assert not sent.reversible
    assert "cannot be taken back" in sent.why

    remote = radius({"node": "web-3", "command": "systemctl restart nginx"})
    assert remote.nodes == ("web-3",)
    assert not remote.reversible
    assert not radius({"command": "make"}, sandbox="C").reversible
    deploy = radius({"command": "make deploy"}, rule="outward_effect")
    assert not deploy.reversible
    assert "as far as the box lets it out" in deploy.why
    assert "box" not in radius({"command": "make deploy"}, rule="outward_effect", sandbox="C").why


def test_what_is_written_is_not_what_is_touched() -> None:
    found = radius({"path": "a/b.txt", "content": "see https://elsewhere.example and /etc/passwd"})
    assert found.files == ("a/b.txt",)
    assert found.hosts == ()


def test_long_and_broken_commands_cost_little() -> None:
    started = time.process_time()
    for text in ("a.a" * 100_000, "x@" * 50_000, "if then (" * 2_000, "/a" * 50_000, "http://[" * 10_000):
        radius({"command": text, "url": text})
    assert time.process_time() - started < 5
