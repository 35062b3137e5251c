"""Completion of values: what is typed, what is offered, and what never reaches a shell."""

import importlib
import json
import time
from pathlib import Path
from typing import Any

import apsw
import pytest
import typer

from agent_fabric.infrastructure.persistence.schema import FORMAT, read_steps
from agent_fabric.interfaces.cli.completion_values import (
    ARGUMENTS,
    NO_FILES,
    NOT_A_VALUE,
    OPTIONS,
    VALUED,
    complete_value,
    format_offers,
    kind_of,
    offers,
    typed_words,
    works_elsewhere,
)
from agent_fabric.interfaces.cli.main import COMMANDS, module_of

RUN, OTHER, SEALED = "run_20261117_a", "run_20261116_b", "run_20261115_c"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".fabric").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def store(project: Path, version: int = FORMAT) -> Path:
    path = project / ".fabric" / "fabric.db"
    connection = apsw.Connection(str(path))
    for migration in read_steps():
        connection.execute(migration)
    connection.execute("PRAGMA journal_mode = WAL")
    for number, run_id in enumerate((SEALED, OTHER, RUN), start=1):
        connection.execute("INSERT INTO runs (run_id, status, created_at) VALUES (?, 'completed', 1.0)", (run_id,))
        connection.execute(
            "INSERT INTO events (run, seq, ts, kind, version, step, payload, hash)"
            " VALUES (?, 1, 1.0, 'run_created', 1, '', ?, x'00')",
            (number, json.dumps({"prompt": f"task of {run_id}"}).encode()),
        )
    connection.execute("INSERT INTO run_keys (run, key) VALUES (1, x'00')")
    for name, status, end in (("ap_1", "pending", 1e12), ("ap_2", "denied", 1e12), ("ap_3", "pending", 1.0)):
        connection.execute(
            "INSERT INTO pending_approvals"
            " (id, run, execution_id, tool_name, arguments, status, created_at, expires_at, card)"
            " VALUES (?, 1, 'e', 'shell', x'00', ?, 1.0, ?, x'00')",
            (name, status, end),
        )
    connection.execute(
        "INSERT INTO users (name, role, created_at) VALUES ('ada', 'admin', 1.0), ('bob', 'member', 1.0)"
    )
    for key, expires, revoked in (("ci", None, None), ("old", 1.0, None), ("lost", None, 1.0), ("next", 1e12, None)):
        connection.execute(
            "INSERT INTO api_keys (id, name, hash, scopes, created_by, created_at, expires_at, revoked_at)"
            " VALUES (?, ?, ?, '[]', 'ada', 1.0, ?, ?)",
            (f"id-{key}", key, key.encode(), expires, revoked),
        )
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    return path


def asked(line: str, **more: str) -> dict[str, str]:
    words = line.split(" ")
    bash = {"_FABRIC_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    return {**bash, "HOME": "/nonexistent", **more}


def test_the_newest_runs_come_first_with_status_and_task_but_no_encrypted_task(project: Path) -> None:
    store(project)
    assert offers("runs", "", None, {}) == [
        (RUN, f"completed task of {RUN}"),
        (OTHER, f"completed task of {OTHER}"),
        (SEALED, "completed"),
    ]
    assert [value for value, _ in offers("runs", "run_20261116", None, {})] == [OTHER]


def test_only_pending_approvals_are_offered(project: Path) -> None:
    store(project)
    assert offers("approvals", "", None, {}) == [("ap_1", "shell")]


@pytest.mark.proves("DU-9")
def test_users_and_keys_that_count_are_offered(project: Path) -> None:
    store(project)
    assert offers("users", "", None, {}) == [("ada", "admin"), ("bob", "member")]
    assert offers("users", "b", None, {}) == [("bob", "member")]
    assert offers("keys", "", None, {}) == [("ci", "id-ci"), ("next", "id-next")]
    assert kind_of(["keys", "revoke"], "") == "keys"
    assert kind_of(["users", "set"], "a") == kind_of(["token", "issue"], "") == "users"


def test_reading_the_store_leaves_the_folder_as_it_was(project: Path) -> None:
    path = store(project)
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    assert offers("runs", "", None, {})
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before


def test_what_another_process_has_just_written_is_offered(project: Path) -> None:
    writer = apsw.Connection(str(store(project)))
    writer.execute("INSERT INTO runs (run_id, status, created_at) VALUES ('run_new', 'running', 2.0)")
    assert offers("runs", "run_new", None, {}) == [("run_new", "running")]
    writer.close()


@pytest.mark.parametrize("damage", ["none", "garbage", "newer", "folder", "locked"])
def test_a_store_that_cannot_be_read_offers_nothing_and_says_nothing(
    project: Path, damage: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = project / ".fabric" / "fabric.db"
    lock = None
    if damage == "garbage":
        path.write_bytes(b"no database" * 1000)
    elif damage == "newer":
        store(project, FORMAT + 1)
    elif damage == "folder":
        path.mkdir()
    elif damage == "locked":
        lock = apsw.Connection(str(store(project)))
        lock.execute("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE runs SET status = 'x'")
    started = time.monotonic()
    assert complete_value(asked("fabric logs show ")) in (0, NO_FILES)
    assert time.monotonic() - started < 30
    out, err = capfd.readouterr()
    assert err == ""
    # Locked for itself alone, a database has no shared index: what was there before is read.
    assert out == "" or (damage == "locked" and RUN in out)
    if lock is not None:
        lock.close()


def test_no_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in ("fabric diff ", "fabric workflow run ", "fabric run --pack ", "fabric diff --workspace new "):
        assert complete_value(asked(line, HOME=str(tmp_path))) in (0, NO_FILES)
    assert list(tmp_path.iterdir()) == []


def test_workflows_and_agents_are_the_names_of_their_files(project: Path) -> None:
    for name in ("workflow-definitions/report.yaml", "workflow-definitions/.x.yaml", "workflow-definitions/notes.txt"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).touch()
    for name in ("greeter.md", "README.md", "judge.json"):
        (project / "mine").mkdir(exist_ok=True)
        (project / "mine" / name).touch()
    (project / ".fabric" / "config.json").write_text('{"agents": {"definitions": ["mine"]}}')
    assert offers("workflows", "", None, {}) == [("report", "")]
    assert offers("agents", "", None, {}) == [("greeter", ""), ("judge", "")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", '{"models": {"mine": {"model": "x"}}}'),
        ("config.toml", '[models.mine]\nmodel = "x"\n'),
        ("config.yaml", "models:\n  # here\n  mine:\n    model: x\nbudget:\n  max_steps: 3\n"),
    ],
)
def test_models_are_the_built_in_keys_and_those_of_the_configuration(project: Path, name: str, text: str) -> None:
    (project / ".fabric" / name).write_text(text)
    assert offers("models", "", None, {}) == [("fast", ""), ("mine", ""), ("quality", "")]
    assert offers("specialists", "enter", None, {}) == [("enterprise_research", "")]


def test_several_packs_are_completed_after_the_comma(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert complete_value(asked("fabric run --pack engineering,res")) == 0
    assert capfd.readouterr().out == "engineering,research\n"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("fabric logs show ", "runs"),
        ("fabric logs show --kinds tool ", "runs"),
        ("fabric undo run_1 ", None),
        ("fabric audit list --run ", "runs"),
        ("fabric run --continue ", "runs"),
        ("fabric run ", None),
        ("fabric run --pack = en", "specialists"),
        ("fabric --server auto resume ", "runs"),
        ("fabric logs show --j", None),
        ("fabric logs ", None),
        ("fabric logs s", None),
        ("fabric ", "commands"),
        ("fabric lo", "commands"),
        ("fabric --server auto ", "commands"),
        ("fabric --server ", None),
        ("fabric xyzzy ", None),
    ],
)
def test_the_position_says_what_is_completed(line: str, kind: str | None) -> None:
    assert kind_of(*typed_words("bash", asked(line))) == kind


def test_what_is_no_value_is_left_to_the_command() -> None:
    assert complete_value(asked("fabric run --visibility ")) == NOT_A_VALUE


def test_commands_are_offered_with_their_purpose(capfd: pytest.CaptureFixture[str]) -> None:
    assert complete_value(asked("fabric log")) == 0
    assert capfd.readouterr() == ("login\nlogout\nlogs\n", "")
    fish = {"_FABRIC_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": "fabric undo"}
    assert complete_value(fish) == 0
    assert capfd.readouterr().out == "undo\tRevert what a run changed.\n"


def test_at_a_server_nothing_of_this_folder_is_offered(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store(project)
    for line, url in (("fabric diff ", "http://127.0.0.1:9"), ("fabric diff --server http://127.0.0.1:9 ", "")):
        assert complete_value(asked(line, FABRIC_URL=url)) == NO_FILES
    assert complete_value(asked("fabric workflow run ", FABRIC_URL="http://127.0.0.1:9")) == 0, "it may be a file"
    zsh = {"_FABRIC_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "fabric diff "}
    assert complete_value({**zsh, "FABRIC_URL": "http://127.0.0.1:9"}) == 0
    assert capfd.readouterr() == ("", "")
    assert not works_elsewhere("auto", None, {})
    assert not works_elsewhere(None, ".fabric", {"FABRIC_URL": "http://127.0.0.1:9"})


def test_no_name_or_task_means_anything_to_a_shell() -> None:
    hostile = [
        ("$(touch x)", ""),
        ("`x`", ""),
        ("a'b", ""),
        ("*", ""),
        ("-x", ""),
        ("ok", "it's $(touch x)\x1b[2J\n`y`"),
    ]
    assert format_offers("bash", hostile) == "ok"
    assert format_offers("zsh", hostile) == '_arguments \'*: :(("ok":"it s touch x 2J y"))\''
    assert format_offers("fish", hostile) == "ok\tit s touch x 2J y"


def commands() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in COMMANDS:
        command: Any = typer.main.get_command(importlib.import_module(module_of(name)).app)
        parts = getattr(command, "commands", None)
        found |= {name: command} if parts is None else {f"{name} {part}": each for part, each in parts.items()}
    return found


def test_the_table_names_every_argument_and_option_of_the_commands() -> None:
    kinds = {"run_id": "runs", "approval": "approvals"}
    for path, command in commands().items():
        arguments = [each.name for each in command.params if each.param_type_name == "argument"]
        if arguments[:1] and arguments[0] in kinds:
            assert ARGUMENTS.get(path) == kinds[arguments[0]], path
        options = [each for each in command.params if each.param_type_name == "option" and not each.is_flag]
        if path in ARGUMENTS or path in ("run", "audit list", "approvals list", "models use"):
            assert {name for each in options for name in each.opts} <= VALUED, path
    assert set(ARGUMENTS) <= set(commands())
    every = {name for each in commands().values() for option in each.params for name in option.opts}
    assert set(OPTIONS) <= every
