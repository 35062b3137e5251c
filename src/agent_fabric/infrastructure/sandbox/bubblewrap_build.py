"""How a box of level A is made: what bubblewrap is told, and the files it is handed."""

import marshal
import os
import socket
import stat
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from importlib.abc import SourceLoader
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from agent_fabric.config.schema.sandbox import SandboxLimits
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.sandbox import egress_bridge, worker
from agent_fabric.infrastructure.sandbox.command_line import memory_file
from agent_fabric.infrastructure.sandbox.dropping import Launch, Owner
from agent_fabric.infrastructure.sandbox.environment import box_environment
from agent_fabric.infrastructure.sandbox.git_identity import git_identity
from agent_fabric.infrastructure.sandbox.limits import process_limits
from agent_fabric.infrastructure.sandbox.mounts_toolchains import SYSTEM, interpreter, toolchains, within
from agent_fabric.infrastructure.sandbox.process_environments import RUN
from agent_fabric.infrastructure.sandbox.seccomp import filter_bytes, supported

HOME = "/home/fabric"
"""The home folder inside a box: empty at first, in memory, gone with the box."""
OWN = "/run/fabric"
"""Where a box keeps its own files."""

_ETC_FOLDERS = (
    *("alternatives", "ssl/certs", "pki/tls/certs", "pki/ca-trust/extracted", "fonts", "java-17-openjdk", "maven"),
)
_ETC_FILES = (
    *("ld.so.cache", "localtime", "timezone", "os-release", "mime.types", "protocols", "services", "ssl/openssl.cnf"),
)
"""What programs need of /etc. Users, hosts and git's settings are made for the box."""
_MEGABYTE = 1 << 20
_SHARED_MEMORY_MB = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxPlan:
    """What a box is to be."""

    workspace: Path
    """Seen at its own place, with nothing else of the folders around it."""
    run_id: str
    mark: str
    """Tells this box from others of the same run."""
    owner: Owner
    mapped: bool
    """Whether the workspace is root's, to be seen as the owner's."""
    limits: SandboxLimits
    covers: Sequence[tuple[Path, bool]]
    """Paths in the workspace that are mounted over themselves, and whether they may be written."""
    masked: Sequence[Path]
    """Sockets in the workspace that commands must not reach."""
    hidden: Sequence[Path]
    """Folders in the workspace that commands must not see."""
    fabric: Path | None
    """Fabric's own folder, which they must not see wherever it lies."""
    egress_socket: Path | None
    """The unix socket of the proxy, as it lies outside."""
    waits: bool
    """Whether its worker starts only when it is told to."""
    environment: Mapping[str, str]
    """Our own, of which commands see a part."""


def mount_arguments(plan: BoxPlan, found: Sequence[Path], launch: Launch) -> list[str]:
    """Return what bubblewrap is told about files, but for those that are made for the box."""
    workspace = launch.source(plan.workspace, as_own=plan.mapped)
    private_mb = plan.limits.total_disk_mb // 2
    # In what is shown of the system and of toolchains fabric's own folder looks empty, but for the workspace.
    closed = [] if plan.fabric is None or not within(plan.fabric, [*SYSTEM, *found]) else [plan.fabric]
    egress = plan.egress_socket
    return [
        *_system(),
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
        *("--dev", "/dev", *_memory("/dev/shm", _SHARED_MEMORY_MB, "1777"), "--remount-ro", "/dev"),  # noqa: S108
        *_memory("/tmp", private_mb, "1777"),  # noqa: S108 - the box's own
        *("--dir", "/var", "--symlink", "../tmp", "/var/tmp"),  # noqa: S108 - the box's own
        *_memory(HOME, private_mb, "0700"),
        *(part for path in found for part in ("--ro-bind", str(launch.source(path)), str(path))),
        *(part for path in closed for part in _emptied_places(path)),
        *("--bind", str(workspace), str(plan.workspace)),
        *(part for path, writable in plan.covers for part in _cover(plan.workspace, path, writable, workspace)),
        *(part for path in plan.masked for part in ("--ro-bind", "/dev/null", str(path))),
        *(part for path in plan.hidden for part in _emptied_places(path)),
        *(part for path in (*closed, *plan.hidden) for part in ("--remount-ro", str(path))),
        *(() if egress is None else ("--bind", str(launch.source(egress, as_own=True)), _EGRESS)),
    ]


def made_files(uid: int, gid: int, identity: str) -> dict[str, bytes]:
    """Return the files that are made for a box; `identity` is what git knows of the user."""
    texts = {
        "/etc/passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\nfabric:x:{uid}:{gid}:fabric:{HOME}:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        "/etc/group": f"root:x:0:\nfabric:x:{gid}:\nnogroup:x:65534:\n",
        "/etc/hosts": "127.0.0.1 localhost box\n::1 localhost\n",
        "/etc/hostname": "box\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
        "/etc/gitconfig": f"[safe]\n\tdirectory = *\n{identity}",
    }
    return _copy() | {path: text.encode() for path, text in texts.items()}


@cache
def _copy() -> dict[str, bytes]:
    """Return the system's own files that a box gets a copy of: a mount for each would take longer."""
    found: dict[str, bytes] = {}
    for name in _ETC_FILES:
        path = Path("/etc") / name
        with suppress(OSError):
            found[str(path)] = path.read_bytes()
    return found


def _system() -> list[str]:
    arguments: list[str] = []
    for place in SYSTEM:
        path = Path(place)
        if path.is_symlink():
            arguments += ("--symlink", str(path.readlink()), place)
        elif path.is_dir():
            arguments += ("--ro-bind", place, place)
    for name in _ETC_FOLDERS:
        path = Path("/etc") / name
        if path.is_dir():
            arguments += ("--ro-bind", str(path), str(path))
    return arguments


def _memory(place: str, size_mb: int, mode: str) -> tuple[str, ...]:
    return ("--perms", mode, "--size", str(size_mb * _MEGABYTE), "--tmpfs", place)


def _emptied_places(path: Path) -> tuple[str, ...]:
    return ("--perms", "0555", "--size", "4096", "--tmpfs", str(path))


def _cover(workspace: Path, path: Path, writable: bool, source: Path) -> tuple[str, ...]:
    inside = f"{source}{str(path).removeprefix(str(workspace))}"
    return ("--bind" if writable else "--ro-bind", inside, str(path))


PROGRAMS = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""Where bubblewrap is looked for. Not on PATH: a workspace may be there, and only the system's own may be allowed."""
BOX, BOX_OF = "FABRIC_BOX", "FABRIC_BOX_OF"
"""Variables by which a box is found from outside: which one, and whose."""

_ISOLATED = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--clearenv"),
    # Bubblewrap's own first process would be without limits, and open to commands: so the worker is the first one.
    *("--hostname", "box", "--cap-drop", "ALL", "--as-pid-1"),
)
_REST_OF_HEADER = 12
_WORKER, _BRIDGE, _EGRESS = f"{OWN}/worker.pyc", f"{OWN}/bridge.pyc", f"{OWN}/egress"


class Built(NamedTuple):
    """All that is needed to start a box."""

    command: list[str]
    bubblewrap: str
    """The program itself; the command may begin with a step before it."""
    environment: dict[str, str]
    """Of bubblewrap itself, not of commands."""
    control: tuple[socket.socket, socket.socket]
    files: list[int]
    """Open files that bubblewrap must inherit."""
    info: int
    """Where bubblewrap's words about the box are read."""
    go: int | None
    """Where a byte makes the worker start; None: it does so by itself."""


def find_bubblewrap() -> Path | None:
    """Return the system's bubblewrap, which belongs to root; None if there is none."""
    for path in map(Path, PROGRAMS):
        with suppress(OSError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode) and status.st_uid == 0 and os.access(path, os.X_OK):
                return path
    return None


def build(plan: BoxPlan, open_files: ExitStack) -> Built:
    """Prepare the start of a box; what is opened for it is closed with `open_files`, but for our end of its socket.

    Raises:
        ConfigError: there is no bubblewrap, or no filter for this machine.
        OSError: as the system says.
    """
    program = _bubblewrap()
    launch = Launch(plan.owner)
    found = toolchains(plan.environment, plan.workspace)
    files: list[int] = []

    def handed_over(data: bytes) -> str:
        files.append(memory_file(data))
        open_files.callback(os.close, files[-1])
        return str(files[-1])

    def pipe() -> tuple[int, int]:
        both = os.pipe()
        for file in both:
            open_files.callback(os.close, file)
        return both

    info, _ = pipe()
    # Bubblewrap may read there, too. Without a reader it would end halfway if we died meanwhile, and its child waited
    # for it forever. So it goes on, and the worker finds that no one is there.
    told_of_it = os.open(f"/proc/self/fd/{info}", os.O_RDWR | os.O_CLOEXEC)
    open_files.callback(os.close, told_of_it)
    waiting, go = pipe() if plan.waits else (None, None)
    files += [told_of_it, *([] if waiting is None else [waiting])]
    control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    told = [
        *_ISOLATED,
        *("--uid", str(plan.owner.uid), "--gid", str(plan.owner.gid)),
        *_settings(_environment(plan, found)),
        *mount_arguments(plan, found, launch),
        *(
            part
            for path, data in _make(plan).items()
            for part in ("--perms", "0444", "--file", handed_over(data), path)
        ),
        *("--remount-ro", "/", "--chdir", str(plan.workspace)),
        *("--seccomp", handed_over(filter_bytes(sockets="any")), "--info-fd", str(told_of_it)),
        *(() if waiting is None else ("--block-fd", str(waiting))),
    ]
    within_box = [
        *(str(interpreter()), "-I", "-S", _WORKER, str(control[1].fileno()), *process_limits(plan.limits)),
        *(_bridge() if plan.egress_socket is not None else ()),
    ]
    told_by = handed_over(b"".join(os.fsencode(one) + b"\0" for one in told))
    command = launch.command([str(program), "--args", told_by, "--", *within_box])
    return Built(command, str(program), {BOX: plan.mark, BOX_OF: plan.run_id}, control, files, info, go)


def _bubblewrap() -> Path:
    program = find_bubblewrap()
    if program is None:
        raise ConfigError(
            "bubblewrap, which makes boxes of level A, is not installed",
            hint="On Debian and Ubuntu: apt install bubblewrap. Or choose another level: `sandbox.level`.",
        )
    if not supported():
        raise ConfigError("boxes of level A need Linux on x86_64 or aarch64", hint="Choose another `sandbox.level`.")
    return program


def _environment(plan: BoxPlan, found: Sequence[Path]) -> dict[str, str]:
    visible = [*SYSTEM, *map(str, found), str(plan.workspace), "/etc/ssl/certs", "/etc/pki"]
    proxy = f"http://127.0.0.1:{egress_bridge.PORT}" if plan.egress_socket is not None else None
    return {
        **box_environment(plan.environment, home=HOME, is_visible=lambda place: within(place, visible), proxy=proxy),
        RUN: plan.run_id,
    }


def _settings(environment: Mapping[str, str]) -> list[str]:
    return [part for name, value in environment.items() for part in ("--setenv", name, value)]


def _make(plan: BoxPlan) -> dict[str, bytes]:
    made = made_files(*plan.owner, git_identity(plan.environment)) | {_WORKER: _program(worker)}
    return made | {_BRIDGE: _program(egress_bridge)} if plan.egress_socket is not None else made


def _bridge() -> tuple[str, ...]:
    return ("--bridge", str(egress_bridge.PORT), str(interpreter()), _BRIDGE, _EGRESS)


@cache
def _program(module: ModuleType) -> bytes:
    """Return a module as a file that our interpreter, which is the box's too, runs without reading its text again."""
    assert isinstance(module.__loader__, SourceLoader)
    code = module.__loader__.get_code(module.__name__)
    return MAGIC_NUMBER + bytes(_REST_OF_HEADER) + marshal.dumps(code)
