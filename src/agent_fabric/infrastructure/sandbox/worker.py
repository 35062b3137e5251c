"""The program inside a box that starts its commands: one per run, warm, so that a command costs little.

It is run by itself by a bare interpreter (`python -I -S`) behind the box's walls, so it imports nothing but
what is quick to load. Its caller sends commands over a socket, each with four open files: the line on which caller and
command talk, stdout, stderr, and a text: variables, an empty word, the program and its arguments. Each command is taken
by a *keeper*, forked in advance, to which every process of the command falls back when its parent ends; so the keeper
can end them all, whatever they do.

On its line a keeper says how the command ended (`REPORT`) and, by closing it, that nothing of it is left. The caller
asks it to send SIGTERM by one byte, and to end everything by closing its own half; its death does the same.

It is the first process of the box, which the kernel lets no one in there signal. Its keepers may be killed by whatever
runs in the box: the same user owns them. Nothing is gained by that, and the caller then ends the whole box.
"""

import _ctypes
import _socket
import posix
import resource
import select
import struct
import sys
from posix import _exit

REPORT = struct.Struct("=ci")
"""What a keeper says: a kind and a number."""
ENDED, NOT_STARTED = b"e", b"n"
"""The number is the exit code (negative: the signal), or the system's error."""
READY = b"ready"
FILES = struct.Struct("=4i")
"""The open files that come with a command."""

# The modules `os`, `signal`, `socket` and `ctypes` take longer to load than everything else together: so what lies
# below them is used here. The numbers are those of x86_64 and aarch64.
_SIGKILL, _SIGPIPE, _SIGTERM, _SIGCHLD, _SIGXFSZ = 9, 13, 15, 17, 25
_DEFAULT, _IGNORE = 0, 1

_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_PAUSE_S = 0.001


def main() -> None:
    """Serve commands until the caller is gone.

    Arguments: the number of the control socket, then `NAME=LIMIT` for each limit that holds for one process, and where
    there is a way out, after `--bridge` its port and the command that serves a socket listening there.
    """
    limits, _, bridge = " ".join(sys.argv[2:]).partition("--bridge ")
    control = _socket.socket(fileno=int(sys.argv[1]))
    posix.set_inheritable(control.fileno(), False)
    for name, _, limit in (pair.partition("=") for pair in limits.split()):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (int(limit), int(limit)))
    # Nothing in the box may look into this process, though it belongs to the same user.
    _prctl(_PR_SET_DUMPABLE, 0)
    _call("signal", _SIGCHLD, _IGNORE)  # no one waits for keepers
    if bridge:
        _start_bridge(*bridge.split())
    spare = _fork_keeper(control)
    control.send(READY)
    waiting = select.poll()
    waiting.register(control, 0)  # only that the caller is gone; what it says is for keepers
    while True:
        waiting.register(spare, select.POLLIN)
        for file, _ in waiting.poll():
            if file != spare or not posix.read(spare, 1):
                _exit(0)  # the caller is gone, or someone has killed the keeper
            waiting.unregister(spare)
            posix.close(spare)
            spare = _fork_keeper(control)


def _fork_keeper(control: _socket.socket) -> int:
    """Fork a process that takes the next command; return where it says so."""
    heard, say = posix.pipe()
    while True:
        try:
            if posix.fork() == 0:
                posix.close(heard)
                _keep(control, say)
            break
        except BlockingIOError:  # too many processes for now: one of them has to end first
            select.select((), (), (), _PAUSE_S)
    posix.close(say)
    return heard


def _start_bridge(port: str, *command: str) -> None:
    listener = _socket.socket()
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(port)))
    listener.listen()
    posix.set_inheritable(listener.fileno(), True)
    program, text, socket_path = command
    arguments = (program, "-I", "-S", text, str(listener.fileno()), socket_path)
    posix.posix_spawn(program, arguments, posix.environ, setsid=True)
    listener.close()


def _keep(control: _socket.socket, say: int) -> None:
    """Take a command, start it, say how it ended, and end whatever is left of it."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _call("signal", _SIGCHLD, _DEFAULT)
    size = _socket.CMSG_SPACE(FILES.size)
    data, attached, _, _ = control.recvmsg(1, size, _socket.MSG_CMSG_CLOEXEC)
    if not data or not attached or len(attached[0][2]) != FILES.size:
        _exit(0)
    line, out, err, text = FILES.unpack(attached[0][2])
    posix.write(say, b"t")
    posix.close(say)
    control.close()
    try:
        words = _all_of(text).split(b"\0")
        first = words.index(b"")  # what stands before are variables
        command = _start(*words[first + 1 :], variables=words[:first], out=out, err=err)
        posix.close(out)
        posix.close(err)
        _attend(command, line)
        _sweep(command)
    except OSError as error:
        posix.write(line, REPORT.pack(NOT_STARTED, error.errno or 0))
    finally:
        _exit(0)


def _start(program: bytes, *arguments: bytes, variables: list[bytes], out: int, err: int) -> int:
    """Start the command without a terminal, without input and without any of our files."""
    return posix.posix_spawn(
        program,
        arguments,
        {**posix.environ, **dict(each.split(b"=", 1) for each in variables)},
        file_actions=(
            (posix.POSIX_SPAWN_OPEN, 0, "/dev/null", posix.O_RDONLY, 0),
            (posix.POSIX_SPAWN_DUP2, out, 1),
            (posix.POSIX_SPAWN_DUP2, err, 2),
        ),
        setsid=True,
        # The interpreter ignores these; programs do not expect that.
        setsigdef=(_SIGPIPE, _SIGXFSZ),
    )


def _attend(command: int, line: int) -> None:
    """Wait for the command's end and the caller's words; return when the caller wants everything to end."""
    ended = posix.pidfd_open(command)
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    waiting.register(line, select.POLLIN)
    while True:
        for file, _ in waiting.poll():
            if file == ended:
                waiting.unregister(ended)
                code = posix.waitstatus_to_exitcode(posix.waitpid(command, 0)[1])
                posix.write(line, REPORT.pack(ENDED, code))
                if not _has_children():
                    return
            elif posix.read(line, 1):
                _signal_group(command, _SIGTERM)
            else:
                return


def _sweep(command: int) -> None:
    """Kill whatever is below this process until nothing is.

    The group goes first and at once. Of the rest, those that a killed one leaves fall to this process and are found in
    the next round. Against someone who forks faster than this looks there is the end of the box.
    """
    if not _has_children():
        return
    _signal_group(command, _SIGKILL)
    while _has_children():
        for pid in _below(posix.getpid()):
            try:  # noqa: SIM105 - as above
                posix.kill(pid, _SIGKILL)
            except ProcessLookupError:
                pass
        select.select((), (), (), _PAUSE_S)


def _has_children() -> bool:
    """Whether a child is left, once those that have ended are cleared away."""
    try:
        while posix.waitpid(-1, posix.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _below(top: int) -> set[int]:
    """Return all processes that descend from this one."""
    parents: dict[int, int] = {}
    for name in posix.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
                    parents[int(name)] = int(file.read().rsplit(b")", 1)[1].split()[1])
            except OSError:
                continue
    found, size = {top}, 0
    while len(found) > size:
        size = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found - {top}


def _signal_group(group: int, number: int) -> None:
    try:  # noqa: SIM105 - contextlib takes long to load
        posix.killpg(group, number)
    except ProcessLookupError:
        pass


def _all_of(file: int) -> bytes:
    return posix.pread(file, posix.fstat(file).st_size, 0)


def _prctl(option: int, value: int) -> None:
    if _call("prctl", option, value, 0, 0, 0):
        raise OSError("prctl")


def _call(name: str, *arguments: int) -> int:
    """Call a function of the C library."""
    library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None is what is loaded already
    return int(_ctypes.call_cdeclfunction(_ctypes.dlsym(library, name), arguments))


if __name__ == "__main__":
    main()
