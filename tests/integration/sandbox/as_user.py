"""Running a Python program as a plain user, from tests that run as root."""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TESTS = Path(__file__).parents[2]
SOURCES = TESTS.parent / "src"
USER = 64_321
"""Any number that is nobody's."""


CONTAINED_ROOT = (
    *("setpriv", "--inh-caps=-all", "--bounding-set"),
    "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_raw,+sys_chroot,+mknod,+setfcap",
)
"""Begins a command that root is to run with the rights that it has in a container: it cannot mount, for one."""


def run_python(
    program: Path, *arguments: str, uid: int, timeout_s: float, through: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program of ours as this user. Root's own interpreter may lie in a closed folder: it is shown elsewhere."""
    packages = [path for path in sys.path if path.endswith("site-packages")]
    environment = {
        "PATH": os.defpath + ":/usr/local/bin",
        "PYTHONPATH": os.pathsep.join([str(SOURCES), str(TESTS), *packages]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": "/var/tmp",
        "HOME": "/nonexistent",
    }
    if uid == os.getuid():
        command = [*through, sys.executable, str(program), *arguments]
    else:
        real = Path(os.path.realpath(sys.executable))
        prefix = real.parents[1]
        script = f"""
        mount --make-rprivate / && mount -t tmpfs none /mnt && mkdir /mnt/python &&
        mount --bind {shlex.quote(str(prefix))} /mnt/python &&
        exec setpriv --reuid {uid} --regid {uid} --clear-groups \
            /mnt/python/bin/{real.name} {shlex.join([str(program), *arguments])}
        """
        command = ["unshare", "--mount", "/bin/sh", "-c", script]
    return subprocess.run(
        command, env=environment, cwd="/", capture_output=True, text=True, timeout=timeout_s, check=False
    )
