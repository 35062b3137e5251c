"""What only a plain user can try: root may read and list everything."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65_534


@contextmanager
def plain_user() -> Iterator[Path]:
    """Give a folder of a plain user, and be that user until the end; root becomes one for this time."""
    with tempfile.TemporaryDirectory(prefix="plain-user-", dir="/tmp") as name:
        if os.geteuid() != 0:
            yield Path(name)
            return
        os.chown(name, NOBODY, NOBODY)
        group, groups = os.getegid(), os.getgroups()
        os.setgroups([])
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            os.seteuid(0)
            os.setegid(group)
            os.setgroups(groups)
