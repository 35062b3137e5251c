"""A `python3` for commands of scripted models, with pytest and without its plugins, and a linter.

The one on the search path may have no pytest, or one that loads whatever is installed beside it: two seconds of
processor time for each command that runs tests.
"""

import importlib.metadata
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

_DISTRIBUTIONS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_PATIENCE_S = 60.0


def make_bare_pytest(folder: Path) -> Path:
    """Make a virtual environment in `folder`; return the folder of its programs."""
    venv.create(folder, symlinks=True, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for name in _DISTRIBUTIONS:
        _copy(importlib.metadata.distribution(name), packages)
    programs = folder / "bin"
    if (linter := Path(sys.executable).with_name("ruff")).exists():
        (programs / "ruff").symlink_to(linter)
    # A pytest that cannot run proves nothing, so whoever boasts of it would be seen through in any case.
    test = folder / "test_first.py"
    test.write_text("def test_first():\n    assert True\n")
    command = [str(programs / "python3"), "-m", "pytest", "-q", "-p", "no:cacheprovider", test.name]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    assert "1 passed" in ended.stdout, ended
    return programs


def _copy(distribution: importlib.metadata.Distribution, packages: Path) -> None:
    for top in sorted({file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}):
        source = Path(str(distribution.locate_file(top)))
        if source.is_dir():
            shutil.copytree(source, packages / top)
        else:
            shutil.copy2(source, packages / top)
