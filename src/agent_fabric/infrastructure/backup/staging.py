"""Work beside the final name: nothing half done is ever seen under it."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_fabric.domain.errors import StoreFull, StoreUnavailable
from agent_fabric.infrastructure.tree_walk import remove_tree


def working_name(path: Path, end: str) -> Path:
    """Return what this process calls something beside `path` while it works on it."""
    return path.with_name(f".{path.name}.{os.getpid()}.{end}")


def remove_leftovers(folder: Path, names: re.Pattern[str], *ends: str) -> None:
    """Remove the working files of processes that were killed; `names` says of which things."""
    with suppress(OSError):
        for path in list(folder.iterdir()):
            found = re.fullmatch(rf"\.(.+)\.([0-9]{{1,10}})\.({'|'.join(ends)})(-journal|-wal|-shm)?", path.name)
            if found is not None and names.fullmatch(found[1]) and not _is_alive(int(found[2])):
                _remove(path)


@contextmanager
def stage_files(target: Path, *working: Path, cannot: str, hint: str) -> Iterator[None]:
    """Explain problems with the disk, and remove the working files in any case.

    Raises:
        StoreFull, StoreUnavailable: the disk is full, or refuses.
    """
    try:
        yield
    except OSError as problem:
        if problem.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StoreFull(
                f"The disk that holds {target.parent} is full", hint="Choose a folder on another disk."
            ) from None
        raise StoreUnavailable(f"{cannot}: {problem.strerror or problem}", hint=hint) from None
    finally:
        for path in working:
            for end in ("", "-journal", "-wal", "-shm"):
                _remove(path.with_name(f"{path.name}{end}"))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # another user's
    return True
