"""In force on a node is the stricter of its floor and the hub's policy."""

from collections.abc import Mapping
from typing import Any

import pytest

from agent_fabric.domain.fleet.node_policy import (
    PolicyProblem,
    node_policy,
    proposed_call,
    proposed_proxy_call,
    version_in_force,
)
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS
from agent_fabric.domain.policy.verdicts import Verdict

RESTART = {"id": "restart", "verdict": "allow", "commands": ["systemctl restart nginx"]}
OPEN = {"profile": "open"}


def ruled(command: str, floor: Mapping[str, Any], hub: Mapping[str, Any], tool: str = "run_command") -> str:
    key = "command" if tool == "run_command" else "path"
    return node_policy(floor, hub).judge(proposed_call(NODE_TOOLS[tool], {key: command}, "web-1")).verdict.value


@pytest.mark.proves("WB-5")
@pytest.mark.parametrize(
    ("tool", "args", "alike"),
    [
        ("run_command", {"command": "systemctl restart nginx"}, "exactly `systemctl restart nginx` on web-1"),
        ("run_command", {"command": "git push"}, "every `git push` without options on web-1"),
        ("run_command", {"command": "systemctl restart $x"}, ""),
        ("write_file", {"path": "/etc/motd", "content": "hi"}, "every `write_file` of /etc/motd on web-1"),
        ("write_file", {"path": "/etc/" + "x" * 200, "content": "hi"}, ""),
    ],
)
def test_agreeing_for_the_run_covers_one_machine(tool: str, args: Mapping[str, Any], alike: str) -> None:
    ruling = node_policy({}, {}).judge(proposed_call(NODE_TOOLS[tool], args, "web-1"))
    assert (ruling.verdict, ruling.alike) == (Verdict.ASK, alike)


@pytest.mark.proves("FC-030", "FC-031", "FC-034", "FC-035")
@pytest.mark.parametrize(
    ("command", "floor", "hub", "verdict"),
    [
        ("uname -a", {}, {}, "allow"),
        ("systemctl restart nginx", {}, {}, "ask"),
        ("systemctl restart nginx", {"rules": [RESTART]}, {}, "ask"),
        ("systemctl restart nginx", {}, {"rules": [RESTART]}, "ask"),
        ("systemctl restart nginx", {"rules": [RESTART]}, {"rules": [RESTART]}, "allow"),
        ("systemctl restart sshd", {"rules": [RESTART]}, {"rules": [RESTART]}, "ask"),
        ("systemctl restart nginx", OPEN, OPEN, "allow"),
        ("systemctl restart nginx", OPEN, {}, "ask"),
        ("reboot", {"blocked_commands": ["reboot"], "profile": "open"}, OPEN, "block"),
        ("uptime; reboot", OPEN, {"profile": "open", "blocked_commands": ["reboot"]}, "block"),
        ("cat /etc/hosts", {"requires_approval_for": ["read_file"]}, {}, "ask"),
        ("ls; systemctl stop x", {}, {}, "ask"),
        ("$(printf reboot)", OPEN, OPEN, "ask"),
        ("echo 'unclosed", OPEN, OPEN, "ask"),
    ],
)
def test_the_stricter_of_both_decides(
    command: str, floor: Mapping[str, Any], hub: Mapping[str, Any], verdict: str
) -> None:
    assert ruled(command, floor, hub) == verdict


@pytest.mark.proves("FC-032")
@pytest.mark.parametrize("profile", ["node", "open"])
@pytest.mark.parametrize("hub_says", [True, False])
def test_with_hitl_enabled_every_call_asks_whatever_the_profile(profile: str, hub_says: bool) -> None:
    usual = {"profile": profile, "rules": [{"id": "all", "verdict": "allow", "tools": ["*"]}]}
    asking = {**usual, "hitl_enabled": True}
    floor, hub = (usual, asking) if hub_says else (asking, usual)
    calls = [("uname -a", "run_command"), ("ls", "run_command"), ("/etc/hosts", "read_file")]
    assert [ruled(text, floor, hub, tool) for text, tool in calls] == ["ask"] * 3
    assert [ruled(text, usual, {**usual, "hitl_enabled": False}, tool) for text, tool in calls] == ["allow"] * 3
    assert ruled("uname -a", {**floor, "blocked_commands": ["uname"]}, hub) == "block"
    listing = node_policy(floor, hub).judge(proposed_proxy_call("files", {"method": "tools/list"}, "web-1"))
    assert (listing.verdict, listing.rule) == (Verdict.ASK, "hitl_enabled")


ROOTS = ("/srv", "/var/log")


def ruled_below_roots(command: str, document: Mapping[str, Any], cwd: str = "") -> str:
    call = proposed_call(NODE_TOOLS["run_command"], {"command": command, "cwd": cwd}, "web-1")
    return node_policy(document, document, ROOTS).judge(call).verdict.value


EVERYTHING = {"profile": "open", "rules": [{"id": "all", "verdict": "allow", "commands": ["*"]}]}


@pytest.mark.proves("WB-7")
@pytest.mark.parametrize("document", [{}, OPEN, EVERYTHING], ids=["node", "open", "all allowed"])
@pytest.mark.parametrize(
    "command",
    [
        *(
            "cat /etc/hosts",
            "cat < /etc/hosts",
            "x=$(< /etc/hosts)",
            "cat /srv/../etc/hosts",
            "cd /etc && cat hosts",
            "ls /etc",
        ),
        *("cat hosts", "ls", "cat ~/x", "grep -r x /", "tail -f /var/logs/x", "cat /srvx/a", "cat $X", "cat /srv/$X"),
        *(
            "cat list | xargs cat",
            "find / -name x",
            "find /etc -exec cat {} +",
            "f=/etc/x; cat $f",
            "cat /s*/x",
            "ls /srv /etc",
        ),
        *(
            "cp /srv/a /tmp/b",
            "echo x > /tmp/b",
            "echo x > $X",
            "tee /tmp/x < /srv/a",
            "rm /tmp/x",
            "tar cf /srv/a.tar /etc",
        ),
        *(
            "python3 /opt/x.py",
            "some-tool --config=/etc/x",
            "timeout 5 cat /etc/hosts",
            "bash -c 'cat /etc/hosts'",
            "du -s ~",
        ),
    ],
)
def test_a_command_that_names_what_lies_outside_of_the_roots_asks(command: str, document: Mapping[str, Any]) -> None:
    assert ruled_below_roots(command, document) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        *(
            "cat /srv/a",
            "tail -n 5 /var/log/syslog",
            "ls /srv",
            "cd /srv && cat a",
            "grep -r x /srv/app",
            "cat < /srv/a",
        ),
        *(
            "for f in /srv/a /srv/b; do cat $f; done",
            "cat /srv/*.conf",
            "uptime",
            "df -h",
            "ps aux",
            "systemctl status nginx",
        ),
        *(
            "cat /srv/a 2>/dev/null",
            "echo x",
            "journalctl -u nginx -n 50",
            "cat /srv/a | wc -l",
            "find /var/log -name '*.gz'",
        ),
    ],
)
def test_below_the_roots_and_without_files_nothing_more_asks(command: str) -> None:
    assert ruled_below_roots(command, {}) == "allow"


def test_relative_paths_begin_at_the_folder_of_the_call() -> None:
    assert ruled_below_roots("cat a", {}, cwd="/srv/app") == "allow"
    assert ruled_below_roots("cat ../../etc/hosts", {}, cwd="/srv/app") == "ask"
    assert ruled_below_roots("cat a", {}, cwd="/etc") == "ask"
    key = proposed_call(NODE_TOOLS["run_command"], {"command": "cat id_ed25519", "cwd": "/home/ada/.ssh"}, "web-1")
    assert node_policy({}).judge(key).rule == "reads_secret"


def test_the_root_of_all_binds_nothing_and_roots_change_no_version() -> None:
    call = proposed_call(NODE_TOOLS["run_command"], {"command": "cat /etc/hosts"}, "web-1")
    assert node_policy({}, {}, ("/",)).judge(call).verdict is Verdict.ALLOW
    assert node_policy({}, {}, ROOTS).version == node_policy({}).version
    asked = node_policy({}, {}, ROOTS).judge(call)
    assert (asked.rule, asked.alike) == ("outside_roots", "")
    assert "below /srv, /var/log" in asked.reason


def test_files_are_read_unasked_and_written_with_an_approval() -> None:
    assert ruled("/etc/hosts", {}, {}, "read_file") == "allow"
    assert ruled("/etc/hosts", {}, {}, "write_file") == "ask"


def test_a_version_names_both_documents() -> None:
    versions = {version_in_force(floor, hub) for floor in ({}, OPEN) for hub in ({}, OPEN)}
    assert len(versions) == 4


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"profil": "node"}, "unknown keys"),
        ({"profile": "workspace"}, "profile is"),
        ({"blocked_commands": "reboot"}, "list of texts"),
        ({"rules": [{"id": "a", "verdict": "maybe"}]}, "verdict is"),
        ({"rules": [{"id": "a", "verdict": "allow"}]}, "allows everything"),
        ({"rules": [{"id": "a", "verdict": "block", "commands_matching": ["(?=x)"]}]}, "commands_matching"),
        ({"rules": [RESTART, RESTART]}, "two rules"),
        ({"rules": [{**RESTART, "matches_not": ["systemctl restart nginx"]}]}, "example"),
    ],
)
def test_a_document_that_is_not_understood_is_refused(document: Mapping[str, Any], problem: str) -> None:
    with pytest.raises(PolicyProblem, match=problem):
        node_policy(document)


def test_an_expression_judges_on_a_node_without_re2() -> None:
    rule = {"id": "shutdown", "verdict": "block", "commands_matching": ["^(shutdown|halt)( |$)"]}
    assert ruled("shutdown -h now", {"rules": [rule]}, {}) == "block"


def test_a_tool_of_a_tool_server_asks_until_a_rule_names_it() -> None:
    request = {"method": "tools/call", "params": {"name": "query"}}
    call = proposed_proxy_call("db", request, "web-1")
    assert node_policy({}, {}).judge(call).verdict is Verdict.ASK
    allowed = {"rules": [{"id": "q", "verdict": "allow", "tools": ["db.query"]}]}
    assert node_policy(allowed, allowed).judge(call).verdict is Verdict.ALLOW
    assert node_policy({}, {}).judge(proposed_proxy_call("db", {"method": "tools/list"}, "w")).verdict is Verdict.ALLOW
