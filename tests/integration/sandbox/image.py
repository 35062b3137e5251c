"""Container images without a registry: made from the programs of this machine."""

import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from agent_fabric.infrastructure.sandbox.podman_engine import Engine

BUSYBOX = (
    *("sh", "cat", "echo", "ls", "sleep", "true", "false", "kill", "setsid", "id", "env", "seq", "head", "rm", "yes"),
    "grep",
)
"""Programs that busybox stands for."""
_FOLDERS = ("bin", "tmp", "proc", "dev", "sys", "etc", "usr", "usr/bin", "workspace")


def import_busybox(engine: Engine, name: str, busybox: str, *, with_python: bool = False) -> None:
    """Make an image that holds busybox and nothing else, or also the system's Python."""
    with io.BytesIO() as content:
        with tarfile.open(fileobj=content, mode="w", dereference=True) as archive:
            for folder in _FOLDERS:
                entry = tarfile.TarInfo(folder)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
                archive.addfile(entry)
            archive.add(busybox, "bin/busybox")
            for program in BUSYBOX:
                link = tarfile.TarInfo(f"bin/{program}")
                link.type, link.linkname, link.mode = tarfile.SYMTYPE, "busybox", 0o777
                archive.addfile(link)
            if with_python:
                _add_python(archive)
        done = subprocess.run(
            [*engine.words, "import", "-", name], input=content.getvalue(), capture_output=True, check=False
        )
    assert done.returncode == 0, done.stderr.decode()


def remove_image(engine: Engine, name: str) -> None:
    """Remove an image, so that the next one of its name leaves none behind."""
    subprocess.run([*engine.words, "rmi", "--force", name], capture_output=True, check=False)


def static_busybox() -> str | None:
    """Return a busybox that needs no libraries, or None."""
    found = shutil.which("busybox")
    if found is None:
        return None
    return found if b"ld-linux" not in Path(found).read_bytes()[:4096] else None


def _add_python(archive: tarfile.TarFile) -> None:
    real = Path("/usr/bin/python3").resolve()
    library = Path("/usr/lib") / real.name
    modules = [path for path in library.iterdir() if path.name not in {"test", "__pycache__", "dist-packages"}]
    archive.add(real, "usr/bin/python3")
    for path in modules:
        archive.add(path, str(path)[1:])
    programs = [real, *(path for path in (library / "lib-dynload").iterdir() if path.suffix == ".so")]
    listed = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False).stdout
    for library_file in sorted(set(re.findall(r"(/\S+\.so\S*) \(", listed))):
        archive.add(library_file, library_file[1:])
