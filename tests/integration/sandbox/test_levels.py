import json
import os
import sys
from pathlib import Path
from typing import Literal

import pytest

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.schema.sandbox import SandboxConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.sandbox.landlock import landlock_gaps
from agent_fabric.infrastructure.sandbox.landlock_rules import landlock_version
from agent_fabric.infrastructure.sandbox.levels import (
    REFUSED,
    SENTENCES,
    RunSandboxes,
    SandboxChoice,
    Surroundings,
    choose_level,
    make_box,
)
from agent_fabric.infrastructure.sandbox.probe import problem_with
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from services import need, need_program

need(sys.platform == "linux" and landlock_version(), "needs Linux with Landlock")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": os.environ["PATH"]}


def memory_of(environ: dict[str, str]) -> Path:
    return Path(environ["XDG_CACHE_HOME"]) / "agent-fabric" / "sandbox.json"


def spoil(environ: dict[str, str], level: Literal["A", "B"]) -> None:
    """Make the memory say that a level, which was tried, does not work."""
    choose_level(SandboxConfig(level=level), environ=environ)
    entries = json.loads(memory_of(environ).read_bytes())
    entries[level]["problem"] = "not on this machine"
    memory_of(environ).write_text(json.dumps(entries))


async def test_the_probe_finds_out_that_no_box_is_no_box() -> None:
    said = await problem_with(lambda workspace, run_id, _: UnconfinedSandbox(workspace, run_id))
    assert said == "a command looks into other processes"


def test_left_to_itself_the_strongest_level_that_works_is_chosen(environ: dict[str, str]) -> None:
    need_program("bwrap", package="bubblewrap")
    choice = choose_level(SandboxConfig(), environ=environ)
    assert (choice.level, choice.sentence, choice.problems) == ("A", SENTENCES["A"], ())
    assert choice.commands


def test_where_that_does_not_work_the_next_one_is_taken_and_the_reason_told(environ: dict[str, str]) -> None:
    need_program("bwrap", package="bubblewrap")
    spoil(environ, "A")
    choice = choose_level(SandboxConfig(), environ=environ)
    assert choice.level == "B"
    assert choice.problems[0].startswith("Level A does not work here: not on this machine.")


def test_a_try_is_remembered_so_that_the_next_start_is_fast(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SandboxConfig(level="B")
    first = choose_level(config, environ=environ)
    monkeypatch.setitem(sys.modules, "agent_fabric.infrastructure.sandbox.probe", None)  # cannot be imported: no try
    assert choose_level(config, environ=environ) == first
    assert list(json.loads(memory_of(environ).read_bytes())) == ["B"]


async def test_a_level_can_be_chosen_where_an_event_loop_runs(environ: dict[str, str]) -> None:
    assert choose_level(SandboxConfig(level="B"), environ=environ).level == "B"


def test_a_user_without_a_home_gets_a_level_too() -> None:
    assert choose_level(SandboxConfig(level="B"), environ={}).level == "B"


@pytest.mark.parametrize("change", ["uid", "age", "future", "garbage", "list"])
def test_what_was_found_for_others_or_long_ago_is_not_believed(environ: dict[str, str], change: str) -> None:
    spoil(environ, "B")
    file = memory_of(environ)
    entries = json.loads(file.read_bytes())
    if change == "uid":
        entries["B"]["of"][0] = "12345"
    entries["B"]["at"] += {"age": -3600, "future": 3600}.get(change, 0)
    if change == "list":
        entries = ["B"]
    file.write_text("{" if change == "garbage" else json.dumps(entries))
    assert choose_level(SandboxConfig(level="B"), environ=environ).level == "B"


def test_a_level_that_is_named_and_does_not_work_is_an_error_and_never_lowered(environ: dict[str, str]) -> None:
    config = SandboxConfig(level="A+", image="localhost/no-such-image:1", container_engine=("no-such-engine",))
    with pytest.raises(ConfigError, match=r"A\+ does not work here: There is no program 'no-such-engine'") as caught:
        choose_level(config, environ=environ)
    assert "Install podman" in caught.value.hint


def test_no_box_at_all_is_had_by_name_and_said_aloud(environ: dict[str, str]) -> None:
    choice = choose_level(SandboxConfig(level="C"), environ=environ)
    assert choice.sentence == "Commands run with your rights. Anything you can read, they can read."
    assert not memory_of(environ).exists()


def test_where_nothing_works_a_user_is_told_and_root_gets_no_commands(environ: dict[str, str]) -> None:
    need_program("bwrap", package="bubblewrap")
    spoil(environ, "A")
    spoil(environ, "B")
    choice = choose_level(SandboxConfig(), environ=environ)
    assert choice.level == "C"
    assert len(choice.problems) == 2
    assert "apt install bubblewrap" in choice.problems[0]
    assert choice.commands == (os.getuid() != 0)
    assert choice.sentence == (SENTENCES["C"] if choice.commands else REFUSED)


async def test_without_commands_a_box_has_files_and_says_why(tmp_path: Path) -> None:
    choice = SandboxChoice(level="C", why="", sentence=REFUSED, commands=False)
    box = RunSandboxes(choice, SandboxConfig()).for_run(RunId("r"), str(tmp_path), network_allowed=False)
    assert await box.write_file("a", b"x") is True
    with pytest.raises(PermissionError, match="started as root and no sandbox works"):
        await box.run_command("true", timeout_s=60)


async def test_a_run_has_one_box_for_all_its_packs_until_it_is_closed(tmp_path: Path) -> None:
    choice = SandboxChoice(level="B", why="", sentence=SENTENCES["B"])
    sandboxes = RunSandboxes(choice, SandboxConfig(level="B"))
    first, other = (sandboxes.for_run(RunId(run), str(tmp_path), network_allowed=False) for run in ("one", "two"))
    assert sandboxes.level == "B"
    assert sandboxes.for_run(RunId("one"), str(tmp_path), network_allowed=False) is first
    assert other is not first
    await first.run_command("echo kept > $TMPDIR/x", timeout_s=60)
    assert (await first.run_command("cat $TMPDIR/x", timeout_s=60)).stdout == b"kept\n"
    assert await sandboxes.end_leftovers(RunId("one"), str(tmp_path)) == 0
    await sandboxes.close(RunId("one"))
    await sandboxes.close(RunId("never there"))
    again: Sandbox = sandboxes.for_run(RunId("one"), str(tmp_path), network_allowed=False)
    assert again is not first
    assert (await again.run_command("cat $TMPDIR/x", timeout_s=60)).exit_code == 1
    await sandboxes.aclose()


def test_what_level_b_cannot_hide_it_refuses_to_stand_around(tmp_path: Path) -> None:
    choice = SandboxChoice(level="B", why="", sentence=SENTENCES["B"])
    around = Surroundings(hidden=tmp_path / ".fabric")
    sandboxes = RunSandboxes(choice, SandboxConfig(level="B"), around=around)
    with pytest.raises(ConfigError, match=r"cannot hide \.fabric"):
        sandboxes.for_run(RunId("r"), str(tmp_path), network_allowed=False)


def test_what_older_kernels_lack_is_said() -> None:
    assert landlock_gaps(7) == ()
    assert landlock_gaps(5) == (
        "no signals to processes outside; a process that keeps forking may outlive its command",
    )
    assert len(landlock_gaps(1)) == 5


def test_a_container_level_needs_an_image() -> None:
    with pytest.raises(ValueError, match="needs `image`"):
        SandboxConfig(level="A+")


@pytest.mark.parametrize("level", ["A", "B", "C"])
def test_the_system_itself_is_no_workspace(level: Literal["A", "B", "C"]) -> None:
    with pytest.raises(ConfigError, match="cannot be a workspace"):
        make_box(level, Path("/usr"), "r", SandboxConfig())  # no command: were this wrong, it would run there
