"""File tools against another process that swaps folders and links under them as fast as it can."""

import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.policy.protected import is_protected
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.infrastructure.sandbox.beneath import Beneath, has_openat2
from agent_fabric.infrastructure.tools.files import EditFile, ReadFile, WriteFile
from agent_fabric.infrastructure.tools.search import SearchFiles
from effort import effort, report

CONTEXT = ToolContext(run_id=RunId("run"), call_id=CallId("call"), timeout_s=60, network_allowed=False)
OUTSIDE, HIDDEN = "outside: a secret needle", "hidden: a secret needle"
READS, CHANGES, SEARCHES = effort(2_000, 20_000), effort(700, 7_000), effort(20, 200)

SWAPPER = """
import os, shutil, sys
os.chdir(sys.argv[1])
targets = ["../outside", ".fabric", os.path.abspath("../outside")]
files = ["../outside/file", ".fabric/file", os.path.abspath("../outside/file")]
print("ready", flush=True)
nth = 0
while True:
    nth += 1
    for name, aside, target in (("swapped", "aside", targets[nth % 3]), ("file", "file_aside", files[nth % 3])):
        try:
            os.rename(name, aside)
            os.symlink(target, name)
            os.unlink(name)
        except OSError:
            pass
        try:
            os.rename(aside, name)
        except OSError:
            shutil.rmtree(name, ignore_errors=True)
            try:
                os.rename(aside, name)
            except OSError:
                pass
"""


class Files:
    """The file half of a sandbox."""

    def __init__(self, beneath: Beneath) -> None:
        self.beneath = beneath

    async def read_file(self, path: str, *, max_bytes: int) -> tuple[bytes, int]:
        return self.beneath.read_file(path, max_bytes)

    async def write_file(self, path: str, data: bytes) -> bool:
        return self.beneath.write_file(path, data)

    async def list_files(self, path: str, *, max_entries: int) -> tuple[list[str], bool]:
        return self.beneath.list_files(path, max_entries)


@pytest.fixture
def around() -> Iterator[Path]:
    """Return a folder in memory where there is one: on a disk, a swap may wait for seconds."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder).resolve()


@contextmanager
def swapped(root: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", SWAPPER, str(root)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            process.kill()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


WAYS: dict[str, dict[str, Any]] = {
    "openat2": {"use_openat2": True},
    "steps": {"use_openat2": False},
    "real names": {"hidden": frozenset({b".fabric"}), "protected": is_protected},
}


@pytest.mark.slow
@pytest.mark.proves("AF-120")
@pytest.mark.parametrize("way", WAYS)
async def test_thousands_of_reads_and_changes_leak_nothing(around: Path, way: str) -> None:
    if way == "openat2" and not has_openat2():
        pytest.skip("the kernel has no openat2")
    root, outside = around / "root", around / "outside"
    for folder, text in ((outside, OUTSIDE), (root / ".fabric", HIDDEN), (root / "swapped", "inside")):
        folder.mkdir(parents=True)
        (folder / "file").write_text(text)
    (root / "file").write_text("inside")
    watched = [outside, root / ".fabric"] if way == "real names" else [outside]
    before = [contents(folder) for folder in watched]
    sandbox = cast("Sandbox", Files(Beneath(root, **WAYS[way])))
    read, write, edit, search = ReadFile(sandbox), WriteFile(sandbox), EditFile(sandbox), SearchFiles(sandbox)
    seen = Counter[str]()
    with swapped(root):
        nth, deadline = 0, time.monotonic() + 60
        while nth < READS or (not seen["PermissionError"] and time.monotonic() < deadline):
            nth += 1
            try:
                content = (await read({"path": ("swapped/file", "file")[nth % 2]}, CONTEXT)).output["content"]
                seen[{OUTSIDE: "outside", HIDDEN: "hidden"}.get(content, "read")] += 1
            except OSError as problem:
                seen[type(problem).__name__] += 1
        for nth in range(CHANGES):
            path = ("swapped/file", "file", "swapped/new/deep")[nth % 3]
            with suppress(OSError, ValueError):
                await write({"path": path, "content": f"inside {nth}"}, CONTEXT)
                seen["written"] += 1
            with suppress(OSError, ValueError):
                await edit({"path": path, "old_text": "inside", "new_text": "inside inside"}, CONTEXT)
                seen["edited"] += 1
            with suppress(OSError, ValueError):
                await edit({"path": path, "old_text": "outside", "new_text": "leaked"}, CONTEXT)
                seen["outside"] += 1
            with suppress(OSError, ValueError):
                await edit({"path": path, "old_text": "hidden", "new_text": "leaked"}, CONTEXT)
                seen["hidden"] += 1
        for _ in range(SEARCHES):
            with suppress(OSError):
                found = (await search({"pattern": "needle"}, CONTEXT)).output["matches"]
                seen["outside"] += sum("outside:" in match for match in found)
                seen["hidden"] += sum("hidden:" in match for match in found)
    report(f"file tool calls against a swapping process ({way})", READS + 4 * CHANGES + SEARCHES)
    assert [contents(folder) for folder in watched] == before
    assert seen["read"] > 0
    assert seen["PermissionError"] > 0, seen
    assert seen["written"] > 0
    assert seen["edited"] > 0
    assert seen["outside"] == 0, seen
    if way == "real names":  # the others hide nothing
        assert seen["hidden"] == 0, seen
