import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_fabric.domain.runs.changes import Entry, EntryKind, FolderSnapshot, compare
from agent_fabric.infrastructure.runs.changes.folder_snapshots import (
    SnapshotTaker,
    TooManyFiles,
    dump_snapshot,
    load_snapshot,
)
from agent_fabric.infrastructure.runs.changes.objects import Objects
from effort import effort, examples
from plain_user import plain_user

ENTRIES = st.builds(
    Entry,
    st.sampled_from(list(EntryKind)),
    st.integers(0, 0o7777),
    st.integers(0, 2**50),
    st.text(max_size=5),
    st.booleans(),
    *(st.integers(0, 2**63 - 1) for _ in range(3)),
)
NAMES = st.binary(min_size=1, max_size=8).map(os.fsdecode)


@given(entries=st.dictionaries(NAMES, ENTRIES), left_alone=st.lists(NAMES).map(tuple), taken_at=st.integers(0, 2**63))
def test_a_picture_is_read_back_as_it_was_stored(
    entries: dict[str, Entry], left_alone: tuple[str, ...], taken_at: int
) -> None:
    picture = FolderSnapshot(entries=entries, left_alone=left_alone, taken_at_ns=taken_at)
    assert load_snapshot(dump_snapshot(picture)) == picture


@given(st.binary(max_size=50), st.integers(0, 60))
def test_a_damaged_picture_is_an_error_and_not_a_guess(rubbish: bytes, cut: int) -> None:
    whole = dump_snapshot(FolderSnapshot(entries={"a": Entry(EntryKind.FILE, 0o644, 1, "x")}))
    for data in (rubbish, whole[: min(cut, len(whole) - 1)]):
        with pytest.raises(ValueError, match="damaged"):
            load_snapshot(data)


def test_contents_are_kept_once_and_damage_counts_as_missing(tmp_path: Path) -> None:
    objects = Objects(tmp_path / "objects")
    digest = Objects.digest_of(b"data")
    objects.put(b"data", digest)
    objects.put(b"data", digest)
    assert objects.digests() == {digest}
    assert objects.get(digest) == b"data"
    (tmp_path / "objects" / digest[:2] / digest[2:]).write_bytes(b"dat")
    assert objects.get(digest) is None
    assert objects.get("") is None
    assert objects.get("../../etc") is None


def test_a_file_written_twice_within_one_tick_is_read_again(tmp_path: Path) -> None:
    folder, objects = tmp_path / "folder", Objects(tmp_path / "objects")
    folder.mkdir()
    (folder / "file").write_bytes(b"one")
    first = SnapshotTaker(objects)(folder)
    status = (folder / "file").stat()
    (folder / "file").write_bytes(b"two")
    os.utime(folder / "file", ns=(status.st_atime_ns, status.st_mtime_ns))
    second = SnapshotTaker(objects, first)(folder)
    assert [change.what for change in compare(first, second)] == ["modified"]


def test_what_exceeds_the_budget_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, size in {"a": 10, "b": 10, "c": 10, "large": 100}.items():
        (folder / name).write_bytes(name.encode() * size)
    picture = SnapshotTaker(Objects(tmp_path / "objects"), max_file_bytes=50, max_total_bytes=25)(folder)
    assert "large" in picture.not_kept
    assert len(picture.not_kept) == 2
    with pytest.raises(TooManyFiles):
        SnapshotTaker(None, most_entries=3)(folder)


def test_what_may_not_be_read_is_said_to_be_beyond_undo() -> None:
    with plain_user() as folder:
        (folder / "closed").mkdir(mode=0o000)
        (folder / "secret").touch(mode=0o000)
        picture = SnapshotTaker(None)(folder)
    assert picture.left_alone == ("closed",)
    assert picture.not_kept == ["secret"]


def test_a_folder_in_uproar_is_pictured_without_error_and_without_leaving_it(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    (folder / "swapped").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (folder / "swapped" / "file").write_text("inside")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            with suppress(OSError):
                (folder / "swapped").rename(folder / "aside")
                (folder / "swapped").symlink_to(outside)
                (folder / "swapped").unlink()
                (folder / "aside").rename(folder / "swapped")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(effort(100, 5_000)):
            assert not any("secret" in path for path in SnapshotTaker(None)(folder).entries)
    finally:
        over.set()
        thread.join()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(50))
@given(
    names=st.lists(
        st.binary(min_size=1, max_size=20).filter(lambda name: not {0, 47} & set(name) and name not in {b".", b".."}),
        max_size=10,
        unique=True,
    )
)
def test_every_name_that_the_system_takes_is_pictured(
    tmp_path_factory: pytest.TempPathFactory, names: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("names")
    for name in names:
        (folder / os.fsdecode(name)).write_bytes(name)
    picture = load_snapshot(dump_snapshot(SnapshotTaker(None)(folder)))
    assert sorted(map(os.fsencode, picture.entries)) == sorted(names)
