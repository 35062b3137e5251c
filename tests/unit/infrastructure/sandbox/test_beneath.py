import os
import shutil
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_fabric.domain.policy.protected import is_protected
from agent_fabric.infrastructure.sandbox.beneath import Beneath, has_openat2
from effort import examples

SECRET = b"outside"

WAYS = [
    pytest.param(True, id="openat2", marks=pytest.mark.skipif(not has_openat2(), reason="the kernel has no openat2")),
    pytest.param(False, id="steps"),
]
AT_ONCE, BY_STEPS = WAYS

HOSTILE = st.lists(
    st.one_of(
        st.sampled_from(["..", ".", "", "folder", "file", "out", "out_file", "absolute", "in", "loop", "pipe", "self"]),
        st.sampled_from(["...", "..\\", "~", "%2e%2e", "a\0b", "\ud800", "\udc2e\udc2e", "x" * 255, "x" * 256, "\n"]),
        st.text(max_size=5),
    ),
    max_size=8,
).map("/".join)


def make_tree(tmp_path: Path) -> Path:
    """Return a workspace full of ways out, with a secret behind each of them."""
    for folder in (tmp_path, tmp_path / "outside", tmp_path / "outside" / "folder"):
        folder.mkdir(exist_ok=True)
        for name in ("secret", "file", "a"):
            (folder / name).write_bytes(SECRET)
    root = tmp_path / "root"
    (root / "folder" / "deep").mkdir(parents=True)
    (root / "file").write_bytes(b"inside")
    (root / "folder" / "file").write_bytes(b"inside")
    for folder in (root, root / "folder"):
        (folder / "out").symlink_to(tmp_path / "outside")
        (folder / "out_file").symlink_to(os.path.relpath(tmp_path / "secret", folder))
        (folder / "absolute").symlink_to("/")
        (folder / "in").symlink_to(os.path.relpath(root / "folder", folder))
        (folder / "loop").symlink_to("loop")
        (folder / "self").symlink_to("/proc/self/cwd")
        os.mkfifo(folder / "pipe")
    return root


def outside(root: Path) -> dict[str, bytes]:
    """Return every file around the workspace with its content."""
    around = [one for one in root.parent.iterdir() if one != root]
    found = around + [below for one in around for below in one.rglob("*")]
    return {str(one): one.read_bytes() if one.is_file() else b"" for one in found}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_tree(tmp_path)


@pytest.fixture(params=WAYS)
def beneath(request: pytest.FixtureRequest, root: Path) -> Beneath:
    return Beneath(root, use_openat2=request.param)


@pytest.fixture(scope="module", params=WAYS)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Beneath]:
    root = make_tree(tmp_path_factory.mktemp("hostile"))
    return root, Beneath(root, use_openat2=request.param)


@pytest.mark.proves("AF-120")
@settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(path=HOSTILE, from_root=st.booleans())
def test_no_path_opens_anything_outside(shared: tuple[Path, Beneath], path: str, from_root: bool) -> None:
    root, beneath = shared
    before = outside(root)
    given_path = f"{root}/{path}" if from_root else path
    with suppress(OSError, ValueError):
        assert SECRET not in beneath.read_file(given_path, 100)[0]
    with suppress(OSError, ValueError):
        assert not any("secret" in name for name in beneath.list_files(given_path, 50)[0])
    with suppress(OSError, ValueError):
        beneath.write_file(given_path, b"written")
    assert outside(root) == before


@pytest.mark.proves("AF-120")
@pytest.mark.parametrize(
    "path",
    [
        *("..", "../secret", "folder/../../secret", "folder/deep/../../../outside/secret", "/etc/passwd", "/", "//"),
        *("out/secret", "out_file", "folder/out_file", "absolute/etc/passwd", "in/../../secret", "self/secret"),
    ],
)
def test_every_way_out_is_refused_by_its_name(beneath: Beneath, path: str) -> None:
    with pytest.raises(PermissionError) as caught:
        beneath.read_file(path, 100)
    assert str(caught.value) in {
        f"{path!r} leads out of the workspace",
        f"{path!r} goes through a link that is not followed",
    }


@pytest.mark.proves("AF-120")
def test_a_path_that_only_begins_like_the_root_is_outside(beneath: Beneath, root: Path) -> None:
    (root.parent / "root-and-more").mkdir()
    (root.parent / "root-and-more" / "secret").write_bytes(SECRET)
    for path in (f"{root}-and-more/secret", f"{root}/../secret", f"{root}/../root-and-more/secret"):
        with pytest.raises(PermissionError):
            beneath.read_file(path, 100)


def test_an_absolute_path_of_the_root_is_taken_as_inside(beneath: Beneath, root: Path) -> None:
    assert beneath.read_file(f"{root}/folder/file", 100) == (b"inside", 6)
    assert beneath.read_file(f"{root}//folder/../file", 100) == (b"inside", 6)
    assert beneath.write_file(f"{root}/new", b"x") is True
    assert "new" in beneath.list_files(str(root), 100)[0]
    with pytest.raises(FileNotFoundError):
        beneath.read_file(f"{root}//etc/passwd", 100)


@pytest.mark.parametrize("way", WAYS)
def test_the_root_may_be_reached_through_a_link(root: Path, way: bool) -> None:
    (root.parent / "alias").symlink_to("root")
    beneath = Beneath(root.parent / "alias", use_openat2=way)
    assert beneath.read_file("file", 100) == (b"inside", 6)
    assert beneath.read_file(f"{root.parent}/alias/file", 100) == (b"inside", 6)
    assert beneath.read_file(f"{root}/file", 100) == (b"inside", 6)


@pytest.mark.parametrize("way", [AT_ONCE])
def test_links_that_stay_inside_are_followed(root: Path, way: bool) -> None:
    beneath = Beneath(root, use_openat2=way)
    assert beneath.read_file("in/file", 100) == (b"inside", 6)
    assert beneath.read_file("folder/in/deep/../file", 100) == (b"inside", 6)
    assert beneath.write_file("in/new", b"x") is True
    assert (root / "folder" / "new").read_bytes() == b"x"


@pytest.mark.parametrize("way", [BY_STEPS])
def test_walking_by_steps_refuses_every_link(root: Path, way: bool) -> None:
    beneath = Beneath(root, use_openat2=way)
    (root / "file_in").symlink_to("file")
    for path in ("in/file", "folder/in/file", "in", "in/", "file_in", "loop"):
        with pytest.raises(PermissionError, match="link"):
            beneath.read_file(path, 100)
        with pytest.raises(PermissionError, match="link"):
            beneath.write_file(path.rstrip("/"), b"x")
    assert beneath.read_file("folder/deep/../../file", 100) == (b"inside", 6)


@pytest.mark.parametrize("way", [AT_ONCE])
def test_a_link_inside_is_replaced_by_the_written_file_and_its_target_kept(root: Path, way: bool) -> None:
    beneath = Beneath(root, use_openat2=way)
    for target in ("file", "nothing"):
        (root / "file_in").unlink(missing_ok=True)
        (root / "file_in").symlink_to(target)
        assert beneath.write_file("file_in", b"mine") is False
        assert not (root / "file_in").is_symlink()
        assert (root / "file_in").read_bytes() == b"mine"
    assert (root / "file").read_bytes() == b"inside"
    assert not (root / "nothing").exists()


@pytest.mark.proves("AF-120")
def test_a_link_that_leads_out_is_neither_followed_nor_replaced(beneath: Beneath, root: Path) -> None:
    (root / "dangling").symlink_to("../made")
    before = outside(root)
    for path in ("out_file", "dangling", "out", "self"):
        with pytest.raises(PermissionError):
            beneath.write_file(path, b"x")
        assert (root / path).is_symlink()
    assert outside(root) == before


def test_pipes_sockets_and_devices_are_refused_at_once(beneath: Beneath, root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(root)  # the whole path may be too long for a socket
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        names = ["pipe", "socket"]
        with suppress(OSError):  # only root may make a device
            os.mknod(root / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
            names.append("null")
        for name in names:
            with pytest.raises(PermissionError, match=f"'{name}' is not a regular file"):
                beneath.read_file(name, 1)
            with pytest.raises(PermissionError, match=f"'{name}' is not a regular file"):
                beneath.write_file(name, b"x")


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("", "the path is empty"),
        ("a\0b", "contains a NUL byte"),
        ("\ud800", "is not valid text"),
        ("x" * 256, "File name too long"),
        ("é" * 128, "File name too long"),
        ("a/" * 3000, "File name too long"),
        ("file/below", "Not a directory: 'file/below'"),
        ("file/", "Not a directory"),
        ("file/.", "Not a directory"),
        ("none", "No such file or directory: 'none'"),
        ("none/../file", "No such file or directory"),
        ("folder", "Is a directory: 'folder'"),
        (".", "Is a directory"),
    ],
)
def test_a_path_that_cannot_be_read_is_explained(beneath: Beneath, path: str, error: str) -> None:
    with pytest.raises((OSError, ValueError), match=error) as caught:
        beneath.read_file(path, 1)
    assert len(str(caught.value)) < 300


def test_only_the_wanted_part_of_a_file_is_read(beneath: Beneath, root: Path) -> None:
    (root / "big").write_bytes(b"0123456789" * 300_000)
    data, size = beneath.read_file("big", 2_000_001)
    assert (len(data), data[-1:], size) == (2_000_001, b"0", 3_000_000)
    assert beneath.read_file("big", 0) == (b"", 3_000_000)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(beneath: Beneath, root: Path) -> None:
    before = sorted(one.name for one in root.iterdir())
    with pytest.raises(IsADirectoryError):
        beneath.write_file("folder", b"x")
    with pytest.raises(NotADirectoryError):
        beneath.write_file("file/below", b"x")
    with pytest.raises(FileNotFoundError):
        beneath.write_file("none/../../secret", b"x")
    assert sorted(one.name for one in root.iterdir()) == before
    assert (root / "file").read_bytes() == b"inside"


def test_a_very_deep_folder_is_made_without_trouble(beneath: Beneath, root: Path) -> None:
    path = "d/" * 1100 + "file"
    try:
        assert beneath.write_file(path, b"x") is True
        assert beneath.read_file(path, 10) == (b"x", 1)
        assert beneath.list_files("d", 3) == (["d/d/", "d/d/d/", "d/d/d/d/"], True)
    finally:
        subprocess.run(["rm", "-rf", root / "d"], check=True)  # too deep for Python's own way


def test_a_file_written_is_readable_to_others_as_the_umask_allows(beneath: Beneath, root: Path) -> None:
    beneath.write_file("new", b"x")
    mask = os.umask(0)
    os.umask(mask)
    assert (root / "new").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_reader_never_sees_half_a_file(beneath: Beneath, root: Path) -> None:
    versions = [letter * 200_000 for letter in (b"a", b"b")]
    beneath.write_file("whole", versions[0])
    ready = threading.Event()

    def write() -> None:
        for number in range(30):
            beneath.write_file("whole", versions[number % 2])
        ready.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = set()
    while not ready.is_set():
        seen.add(beneath.read_file("whole", 1_000_000)[0])
    thread.join()
    assert seen <= set(versions)


def test_folders_that_programs_fill_are_named_but_not_entered(beneath: Beneath, root: Path) -> None:
    (root / "project" / ".git" / "hooks").mkdir(parents=True)
    (root / "project" / ".git" / "HEAD").touch()
    (root / "project" / "a").touch()
    assert beneath.list_files("project", 10) == (["project/.git/", "project/a"], False)
    assert beneath.list_files("project/.git", 10) == (["project/.git/HEAD", "project/.git/hooks/"], False)


def test_names_that_are_not_text_are_listed_as_text(beneath: Beneath, root: Path) -> None:
    try:
        (root / "folder" / "deep" / os.fsdecode(b"caf\xe9")).touch()
    except OSError:
        pytest.skip("this file system takes only text")
    assert beneath.list_files("folder/deep", 10) == (["folder/deep/caf\N{REPLACEMENT CHARACTER}"], False)


def test_listing_a_file_or_nothing_is_an_error(beneath: Beneath) -> None:
    with pytest.raises(NotADirectoryError, match="'file'"):
        beneath.list_files("file", 10)
    with pytest.raises(FileNotFoundError, match="'none'"):
        beneath.list_files("none", 10)


@pytest.fixture
def swapping(root: Path) -> Iterator[None]:
    """Swap a folder for a link to outside and back, as fast as possible, while the test runs."""
    (root / "swapped").mkdir()
    (root / "swapped" / "file").write_bytes(b"inside")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            (root / "swapped").rename(root / "aside")
            with suppress(OSError):  # a writer was faster and made the folder anew
                (root / "swapped").symlink_to(root.parent / "outside")
                (root / "swapped").unlink()
            while (root / "aside").exists():
                try:
                    (root / "aside").rename(root / "swapped")
                except OSError:
                    shutil.rmtree(root / "swapped", ignore_errors=True)

    thread = threading.Thread(target=swap)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.proves("AF-120")
@pytest.mark.usefixtures("swapping")
def test_a_folder_swapped_for_a_link_out_never_leaks(beneath: Beneath, root: Path) -> None:
    before = outside(root)
    read = refused = 0
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < 1 or (passed < 10 and not (read and refused)):
        try:
            assert beneath.read_file("swapped/file", 100)[0] != SECRET
            read += 1
        except PermissionError:
            refused += 1
        except (FileNotFoundError, NotADirectoryError):
            pass  # caught between two names
        with suppress(OSError):
            assert "swapped/secret" not in beneath.list_files("swapped", 10)[0]
    for _ in range(50):
        with suppress(OSError):
            beneath.write_file("swapped/new/written", b"x")
    assert outside(root) == before
    assert read > 0
    assert refused > 0


@pytest.fixture
def guarded(root: Path) -> Beneath:
    """A project folder: `.fabric` is hidden, and what other programs obey is protected."""
    for folder in (".fabric/runs", ".git/hooks", "sub/.git"):
        (root / folder).mkdir(parents=True)
    (root / ".fabric" / "token").write_bytes(SECRET)
    (root / ".git" / "config").write_bytes(b"[core]")
    (root / "to_hidden").symlink_to(".fabric")
    (root / "to_here").symlink_to(".")
    (root / "folder" / "to_git").symlink_to("../.git")
    return Beneath(root, hidden=frozenset({b".fabric"}), protected=is_protected)


@pytest.mark.parametrize(
    "path",
    [
        *(".fabric/token", "folder/../.fabric/token", "to_hidden/token", "to_here/.fabric/token", ".FABRIC/token"),
        *("to_here/to_here/to_hidden/token", "folder/in/../.fabric/token", "./.fabric//token"),
    ],
)
def test_what_is_hidden_cannot_be_reached_by_any_name(guarded: Beneath, root: Path, path: str) -> None:
    with pytest.raises(PermissionError, match="not part of the workspace"):
        guarded.read_file(path, 10)
    with pytest.raises(PermissionError, match="not part of the workspace"):
        guarded.write_file(path, b"x")
    with pytest.raises(PermissionError, match="not part of the workspace"):
        guarded.list_files(os.path.dirname(path), 10)  # noqa: PTH120 - Path would take the dots away
    assert (root / ".fabric" / "token").read_bytes() == SECRET


def test_a_listing_does_not_name_what_is_hidden(guarded: Beneath) -> None:
    for folder in (".", "to_here", "folder/.."):
        names, _ = guarded.list_files(folder, 1000)
        assert names
        assert not any(".fabric" in name for name in names)


def test_what_is_hidden_at_the_top_is_an_ordinary_name_below(guarded: Beneath) -> None:
    guarded.write_file("sub/file", b"x")
    with pytest.raises(PermissionError, match="is protected"):
        guarded.write_file("sub/.fabric/file", b"x")


@pytest.mark.parametrize(
    "path",
    [
        *(".git/config", ".git/hooks/pre-commit", "folder/to_git/config", "to_here/.git/config", ".git", ".vscode/x"),
        *(
            "folder/../.git/config",
            "folder/to_git/../.git/hooks/x",
            "new/.git/config",
            "sub/.git",
            ".bashrc",
            ".Mcp.json",
        ),
    ],
)
def test_what_other_programs_obey_can_be_read_but_not_written(guarded: Beneath, root: Path, path: str) -> None:
    before = sorted(root.rglob("*"))
    with pytest.raises(PermissionError, match="is protected"):
        guarded.write_file(path, b"x")
    assert sorted(root.rglob("*")) == before
    assert guarded.read_file(".git/config", 100)[0] == b"[core]"
    assert guarded.read_file("folder/to_git/config", 100)[0] == b"[core]"


def test_a_guarded_folder_is_as_usable_as_any_other(guarded: Beneath, root: Path) -> None:
    assert guarded.write_file("folder/in/new/file", b"x")
    assert (root / "folder" / "new" / "file").read_bytes() == b"x"
    assert guarded.read_file("in/file", 10)[0] == b"inside"
    assert not guarded.write_file(".git/HEAD", b"ref") or (root / ".git" / "HEAD").exists()
    with pytest.raises(PermissionError, match="link that is not followed"):
        guarded.read_file("loop", 10)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(300))
@given(path=HOSTILE)
def test_no_path_leads_out_of_a_guarded_folder_or_into_what_is_hidden(guarded: Beneath, root: Path, path: str) -> None:
    for shown in (path, f"to_here/{path}", f"to_hidden/{path}", f"folder/../{path}/../.fabric/token"):
        with suppress(OSError, ValueError):
            assert guarded.read_file(shown, 100)[0] != SECRET
        with suppress(OSError, ValueError):
            guarded.write_file(shown + "/../../.fabric/token", b"overwritten")
    assert (root / ".fabric" / "token").read_bytes() == SECRET


def test_a_resolved_root_that_has_become_a_link_is_not_followed(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("secret")
    files = Beneath(root, is_resolved=True)
    root.rmdir()
    root.symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"a\.txt"):
        files.read_file("a.txt", 100)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("way", WAYS)
def test_what_is_made_belongs_to_the_owner_that_was_named(root: Path, way: bool) -> None:
    files = Beneath(root, use_openat2=way, owner=lambda: (1234, 4321))
    files.write_file("made/by/us", b"x")
    files.write_file("file", b"changed")
    for path in ("made", "made/by", "made/by/us", "file"):
        status = (root / path).stat()
        assert (status.st_uid, status.st_gid) == (1234, 4321), path
    assert (root / "folder").stat().st_uid == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_that_is_replaced_keeps_its_owner(root: Path) -> None:
    os.chown(root / "file", 1234, 4321)
    (root / "file").chmod(0o640)
    Beneath(root).write_file("file", b"changed")
    status = (root / "file").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (1234, 4321, 0o640)
