"""What a process that was killed in the middle has left behind."""

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path


def working_name(path: Path, end: str) -> Path:
    """Return what this process calls something beside `path` while it works on it."""
    return path.with_name(f".{path.name}.{os.getpid()}.{end}")


def remove_leftovers(folder: Path, names: re.Pattern[str], *ends: str) -> None:
    """Remove what processes that live no more were working on; `names` says of which things."""
    with suppress(OSError):
        for path in list(folder.iterdir()):
            found = re.fullmatch(rf"\.(.+)\.([0-9]{{1,10}})\.({'|'.join(ends)})(-journal|-wal|-shm)?", path.name)
            if found is not None and names.fullmatch(found[1]) and not _lives(int(found[2])):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True
