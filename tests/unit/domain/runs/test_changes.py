import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_fabric.domain.runs.changes import (
    DriveSnapshots,
    Entry,
    EntryKind,
    FileChange,
    FolderSnapshot,
    changes_of,
    compare,
    same,
)
from agent_fabric.domain.runs.undo import plan_undo
from agent_fabric.domain.runs.unified_diff import file_diff, quote_path

NAMES = st.sampled_from(["a", "b", "a/x", "a/y", "c\n", "d/e/f", "\udcff"])
ENTRIES = st.builds(
    Entry,
    st.sampled_from(list(EntryKind)),
    st.sampled_from([0o644, 0o755]),
    st.just(1),
    st.sampled_from(["one", "two", "three"]),
    st.just(True),
)
PICTURES = st.dictionaries(NAMES, ENTRIES).map(lambda entries: FolderSnapshot(entries=entries))
TEXTS = st.lists(st.sampled_from([b"one\n", b"two\n", b"\n", b"a\rb\n", b"\xff\n", b"-- x\n"]), max_size=30).map(
    b"".join
)


def a_file(digest: str, *, kept: bool = True, ctime_ns: int = 0) -> Entry:
    return Entry(EntryKind.FILE, 0o644, 1, digest, kept, ctime_ns=ctime_ns)


def applied(picture: FolderSnapshot, changes: list[FileChange]) -> dict[str, Entry]:
    entries = dict(picture.entries)
    for change in changes:
        if change.after is None:
            entries.pop(change.path)
        else:
            entries[change.path] = change.after
    return entries


@given(PICTURES, PICTURES)
def test_a_picture_with_its_changes_is_the_next_picture(before: FolderSnapshot, after: FolderSnapshot) -> None:
    reached = applied(before, compare(before, after))
    assert reached.keys() == after.entries.keys()
    assert all(same(reached[path], after.entries[path]) for path in reached)
    assert compare(before, before) == []


@given(st.lists(PICTURES, min_size=2, max_size=5))
def test_drives_without_anybody_between_add_up_to_the_first_and_the_last_picture(
    pictures: list[FolderSnapshot],
) -> None:
    together = changes_of([DriveSnapshots(one, other) for one, other in pairwise(pictures)])
    whole = compare(pictures[0], pictures[-1])
    assert [change.path for change in together] == [change.path for change in whole]
    assert not any(change.mixed or change.doubtful for change in together)


@given(PICTURES, PICTURES, PICTURES)
def test_an_undo_touches_only_what_is_as_the_run_left_it(
    before: FolderSnapshot, after: FolderSnapshot, now: FolderSnapshot
) -> None:
    changes = changes_of([DriveSnapshots(before, after)])
    plan = plan_undo(changes, now)
    for step in plan.steps:
        assert same(step.current, after.entries.get(step.path))
        assert same(step.target, before.entries.get(step.path))
    told = {step.path for step in plan.steps} | {one.path for one in plan.refused} | set(plan.already)
    assert told == {change.path for change in changes}


def test_what_a_person_changed_between_two_drives_is_not_the_runs() -> None:
    first = DriveSnapshots(
        FolderSnapshot(entries={"p": a_file("1")}), FolderSnapshot(entries={"p": a_file("1"), "r": a_file("run")})
    )
    second = DriveSnapshots(
        FolderSnapshot(entries={"p": a_file("2"), "r": a_file("run")}), FolderSnapshot(entries={"p": a_file("2")})
    )
    assert changes_of([first, second]) == []


def test_a_file_that_a_person_changed_between_two_changes_of_the_run_is_not_taken_back() -> None:
    first = DriveSnapshots(FolderSnapshot(entries={"p": a_file("1")}), FolderSnapshot(entries={"p": a_file("2")}))
    second = DriveSnapshots(FolderSnapshot(entries={"p": a_file("3")}), FolderSnapshot(entries={"p": a_file("4")}))
    plan = plan_undo(changes_of([first, second]), FolderSnapshot(entries={"p": a_file("4")}))
    assert plan.blocked
    assert not plan.steps


def test_after_a_kill_only_what_changed_before_the_last_sign_of_life_is_surely_the_runs() -> None:
    now = FolderSnapshot(entries={"a": a_file("a", ctime_ns=10), "b": a_file("b", ctime_ns=30)})
    plan = plan_undo(changes_of([DriveSnapshots(FolderSnapshot(), now, 20)]), now)
    assert [step.path for step in plan.steps] == ["a"]
    assert [one.path for one in plan.refused] == ["b"]
    assert plan.blocked
    assert len(plan_undo(changes_of([DriveSnapshots(FolderSnapshot(), now, 20)]), now, force=True).steps) == 2


def test_what_was_not_kept_cannot_be_taken_back_by_any_force() -> None:
    changes = compare(
        FolderSnapshot(entries={"p": a_file("", kept=False)}), FolderSnapshot(entries={"p": a_file("2", ctime_ns=1)})
    )
    plan = plan_undo(changes, FolderSnapshot(entries={"p": a_file("2", ctime_ns=1)}), force=True)
    assert [one.final for one in plan.refused] == [True]
    assert not plan.blocked


def test_a_new_folder_stays_when_a_person_has_put_a_file_into_it() -> None:
    folder = Entry(EntryKind.FOLDER, 0o755, 0, "")
    changes = compare(FolderSnapshot(), FolderSnapshot(entries={"new": folder, "new/run": a_file("run")}))
    now = FolderSnapshot(entries={"new": folder, "new/run": a_file("run"), "new/mine": a_file("mine")})
    plan = plan_undo(changes, now)
    assert [step.path for step in plan.steps] == ["new/run"]
    assert not plan.refused


@example(b"one\n" + 4 * b"two\n", 5 * b"two\n", b"")
@given(TEXTS, TEXTS, st.sampled_from([b"", b"tail"]))
def test_git_applies_every_diff_and_takes_it_back(
    tmp_path_factory: pytest.TempPathFactory, before: bytes, after: bytes, tail: bytes
) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    after += tail
    diff = file_diff(FileChange(path="f", before=a_file("1"), after=a_file("2")), before, after)
    if before == after:
        assert b"@@" not in diff.text
        return
    folder: Path = tmp_path_factory.mktemp("applied")
    (folder / "f").write_bytes(before)
    for way, expected in (((), after), (("-R",), before)):
        subprocess.run([git, "apply", "--unsafe-paths", *way], cwd=folder, input=diff.text, check=True, timeout=20)
        assert (folder / "f").read_bytes() == expected


@pytest.mark.parametrize(
    "path", ["plain", "with space", "ümlaut", "new\nline", 'quo"te', "back\\slash", "\udcff", "\x1b[2J"]
)
def test_a_name_never_breaks_out_of_its_line(path: str) -> None:
    text = quote_path(path)
    assert "\n" not in text
    assert "\x1b" not in text


def test_a_large_rewrite_is_shown_without_comparing_line_by_line() -> None:
    before = b"".join(b"%d\n" % n for n in range(40_000))
    after = b"".join(b"%d\n" % -n for n in range(40_000))
    found = file_diff(FileChange(path="f", before=a_file("1"), after=a_file("2")), before, after)
    assert found.added == found.removed == 39_999
