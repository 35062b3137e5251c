"""Links among definitions. A project that somebody else made may hold some that lead to files of yours."""

import os
from pathlib import Path
from typing import Final

LEADS_OUT: Final = "this is a link that leads out of its folder, so it is not read"
WHAT_TO_DO: Final = "Put the file itself here, or name its folder in the configuration."


def leads_out(path: Path) -> bool:
    """Tell whether a file or a folder is a link to a place that is not below the folder it stands in."""
    if not path.is_symlink():
        return False
    home, target = os.path.realpath(path.parent), os.path.realpath(path)
    return os.path.commonpath([home, target]) != home
