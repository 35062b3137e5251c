"""The box around a server's program: bubblewrap, hardened; or none for a server that is declared trusted.

And what its program and requests are given: little of our environment, and what the configuration names.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from agent_fabric.application.ports.mcp import SYSCALL_FILTER, ServerLaunch, ServerProcess
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.config.secret_references import SecretReference, reference_in
from agent_fabric.domain.errors import ConfigError, ToolServerUnavailable
from agent_fabric.domain.policy.protected import PROTECTED_AT_TOP
from agent_fabric.infrastructure.sandbox import idmapped
from agent_fabric.infrastructure.sandbox.dropping import needs_mapping
from agent_fabric.infrastructure.sandbox.mounts_toolchains import interpreter
from agent_fabric.infrastructure.sandbox.seccomp import filter_bytes, supported

_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_NETWORK: Final = frozenset(
    (
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *_PROXIES,
        *(name.upper() for name in _PROXIES),
    )
)
_ALWAYS: Final = frozenset(("PATH", "LANG", "LANGUAGE", "TZ"))
_TRUSTED: Final = frozenset(("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"))


def passed_on(environ: Mapping[str, str], *, network: bool, trusted: bool) -> dict[str, str]:
    """Return what of our own environment a server may see.

    A proxy whose address holds a password is left out: it is a secret that no one gave to this server.
    """
    names = _ALWAYS | (_NETWORK if network or trusted else frozenset()) | (_TRUSTED if trusted else frozenset())
    return {
        name: value
        for name, value in environ.items()
        if (name in names or name.startswith("LC_")) and not (name in _NETWORK and "@" in value)
    }


async def secrets_for(
    server: MCPServerConfig, environ: Mapping[str, str], resolve: Resolve | None = None
) -> dict[str, str]:
    """Return the values of all secrets that a server's configuration refers to, by reference.

    Raises:
        ConfigError: one of them is not there, or cannot be had.
    """
    found: dict[str, str] = {}
    for reference in _references(server):
        if reference.source == "env" or resolve is None:
            found[reference.text] = _variable(reference, server, environ)
        else:
            found[reference.text] = await resolve(reference.text)
    return found


def server_environment(server: MCPServerConfig, secrets: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the configuration gives to a server, with secrets in place; see `secrets_for`."""
    return {name: _fill(value, secrets) for name, value in server.env.items()}


def request_headers(server: MCPServerConfig, secrets: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of every request, with secrets in place; see `secrets_for`.

    Raises:
        ConfigError: one of them is no single line.
    """
    headers = {name: _fill(value, secrets) for name, value in server.headers.items()}
    for name, value in headers.items():
        if not value.isprintable() or not value.isascii():
            raise ConfigError(
                f"The header {name} of the tool server {server.name!r} has line breaks or odd characters in it",
                hint="Set the variable or secret that it refers to to one line of plain text.",
            )
    return headers


def hidden_values(secrets: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of secrets; longest first, to be hidden wherever found."""
    return tuple(sorted(set(secrets.values()), key=len)[::-1])


def _references(server: MCPServerConfig) -> Iterator[SecretReference]:
    given = server.env if server.transport == "stdio" else server.headers
    return (found for value in given.values() if (found := reference_in(value)))


def _fill(value: str, secrets: Mapping[str, str]) -> str:
    found = reference_in(value)
    if found is None:
        return value
    secret = secrets[found.text]
    return f"{found.scheme} {secret}" if found.scheme else secret


def _variable(reference: SecretReference, server: MCPServerConfig, environ: Mapping[str, str]) -> str:
    name = reference.name
    if reference.source != "env":
        raise ConfigError(f"{reference.text} cannot be used here", hint="Use an environment variable: env:NAME.")
    secret = environ.get(name, "").strip()
    if not secret:
        raise ConfigError(
            f"The variable {name}, which the tool server {server.name!r} needs, is not set", hint=f"export {name}=…"
        )
    return secret


_IN_HOME: Final = (
    *(".local/bin", ".local/lib", ".local/pipx", ".local/share/uv", ".local/share/pipx", ".local/share/pnpm"),
    *(".pyenv", ".nvm", ".volta", ".asdf", ".bun/bin", ".deno/bin", ".cargo/bin", ".rustup/toolchains"),
)
"""Toolchains; none of these folders is a place for keys."""
_MOUNTED: Final = ("/usr", "/bin", "/sbin", "/lib", "/opt")


def tool_folders(program: str, args: tuple[str, ...], home: Path) -> list[Path]:
    """Return what must be readable for a program with these arguments; never the home folder itself."""
    found = [home / name for name in _IN_HOME]
    found += _around(Path(program))
    for word in args:
        if word.startswith("/") and Path(word).is_file():
            found += _around(Path(word))
            break  # the script of an interpreter; further files are named by `folders`
    kept: list[Path] = []
    for path in found:
        if path.exists() and not _too_much(path, home) and not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def _around(file: Path) -> Iterator[Path]:
    """Yield the installation that a file belongs to, or just the file."""
    for path in dict.fromkeys((file, file.resolve())):
        if path.is_relative_to("/usr"):
            continue
        yield from _installation(path)


def _installation(path: Path) -> Iterator[Path]:
    for parent in path.parents:
        if parent.name == "node_modules":
            yield parent
            return
        settings = parent / "pyvenv.cfg"
        if settings.is_file():
            yield parent
            yield from _base_python(settings)
            return
    yield path


def _base_python(settings: Path) -> Iterator[Path]:
    """Yield where the interpreter of a virtual environment is installed."""
    try:
        lines = settings.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "home" and Path(value.strip()).is_absolute():
            binaries = Path(value.strip())
            yield from (binaries.parent, binaries.resolve().parent)


def _too_much(path: Path, home: Path) -> bool:
    return home.is_relative_to(path) or any(str(path) == folder or path.is_relative_to(folder) for folder in _MOUNTED)


HOME: Final = "/home/server"
"""The server's own folder, as it sees it."""
_TMP_BYTES: Final = 256 * 2**20
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt")
_ETC: Final = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "passwd", "group", "nsswitch.conf"),
    *("ssl", "ca-certificates", "pki", "localtime", "timezone", "mime.types", "protocols", "services"),
)
_ETC_NETWORK: Final = ("resolv.conf", "hosts", "host.conf", "gai.conf")
_READ_ONLY_PROC: Final = ("sys", "sysrq-trigger", "irq", "bus")
"""Root-owned files below /proc that open for writing even without capabilities."""


class BubblewrapServers:
    """ServerConfinement by bubblewrap.

    The program sees the system read-only, a private /tmp, toolchains but nothing else of the home folder, and one
    folder that it may write. It has no network unless its configuration says so.
    """

    def __init__(self, environ: Mapping[str, str], *, bwrap: str | None = None) -> None:
        self._environ = environ
        self._bwrap = bwrap if bwrap is not None else shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")

    def launch(self, process: ServerProcess) -> ServerLaunch:
        """Return how to start the program in a box.

        Raises:
            ToolServerUnavailable: there is no bubblewrap, or we are root and cannot stop being it.
        """
        if not self._bwrap:
            raise ToolServerUnavailable(
                "there is no bubblewrap on this machine, so its program cannot be confined",
                hint="Install bubblewrap, or set `trusted: true` for this server if it may do everything that you may.",
            )
        as_root = os.getuid() == 0
        # Without a network there is no DNS either; npx and uvx then fail with a clear error.
        env = {
            **passed_on(self._environ, network=process.network, trusted=False),
            "HOME": HOME,
            "TMPDIR": "/tmp",  # noqa: S108 - the box's own
            "USER": "server",
            "LOGNAME": "server",
            **process.env,
        }
        argv = [*_view(process), self._bwrap, *self._namespaces(process, as_root=as_root), *self._mounts(process)]
        syscall_filter = b""
        if supported():
            # Sharing our network means sharing its unix sockets without a path, too.
            syscall_filter = filter_bytes(sockets="inet" if process.network else "any")
            argv += ["--seccomp", SYSCALL_FILTER]
        argv += ["--", *(_no_longer_root(process.uid, process.gid) if as_root else ())]
        return ServerLaunch((*argv, process.program, *process.args), env, str(process.home), syscall_filter)

    @staticmethod
    def _namespaces(process: ServerProcess, *, as_root: bool) -> Iterator[str]:
        yield from ("--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-pid", "--unshare-uts")
        yield from ("--unshare-cgroup-try", "--hostname", "server")
        if not process.network:
            yield "--unshare-net"
        if not as_root:  # root makes the mounts itself, and the program is someone else from its first instruction
            yield from ("--unshare-user", "--disable-userns", "--cap-drop", "ALL")

    def _mounts(self, process: ServerProcess) -> Iterator[str]:
        for folder in _SYSTEM:
            path = Path(folder)
            if path.is_symlink():
                yield from ("--symlink", str(path.readlink()), folder)
            elif path.is_dir():
                yield from ("--ro-bind", folder, folder)
        yield from ("--proc", "/proc", "--dev", "/dev")
        for name in _READ_ONLY_PROC:
            yield from ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
        yield from ("--perms", "1777", "--size", str(_TMP_BYTES), "--tmpfs", "/tmp")  # noqa: S108 - the box's own
        made: set[Path] = set()
        for mount in self._binds(process):
            yield from _parents(Path(mount[-1]), made)
            yield from mount
        yield from ("--remount-ro", "/", "--chdir", HOME)

    def _binds(self, process: ServerProcess) -> Iterator[tuple[str, ...]]:
        for name in (*_ETC, *(_ETC_NETWORK if process.network else ())):
            yield "--ro-bind-try", os.path.realpath(f"/etc/{name}"), f"/etc/{name}"
        yield "--bind", str(process.home), HOME
        home = Path(self._environ.get("HOME", "/nonexistent"))
        for path in (*tool_folders(process.program, process.args, home), *process.folders):
            yield "--ro-bind-try", str(path), str(path)
        if process.workspace:
            yield from _workspace(Path(process.workspace), writable=process.workspace_writable)


class TrustedServers:
    """ServerConfinement that is none: the program runs with all our rights."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def launch(self, process: ServerProcess) -> ServerLaunch:
        """Return how to start the program as it is."""
        env = {**passed_on(self._environ, network=True, trusted=True), **process.env}
        return ServerLaunch((process.program, *process.args), env, str(process.home))


def _view(process: ServerProcess) -> tuple[str, ...]:
    """Return what makes root's workspace look like the server's own, in the eyes of the box and of no one else."""
    if not process.workspace or not needs_mapping(Path(process.workspace)):
        return ()
    whom = (str(process.uid), str(process.gid))
    return (str(interpreter()), "-I", "-S", idmapped.PROGRAM, *whom, process.workspace)


def _no_longer_root(uid: int, gid: int) -> tuple[str, ...]:
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin")
    if setpriv is None:
        raise ToolServerUnavailable(
            "we are root, and there is no setpriv to run its program as another user",
            hint="Install util-linux, or do not run as root.",
        )
    return (
        *(setpriv, "--reuid", str(uid), "--regid", str(gid), "--clear-groups", "--no-new-privs"),
        *("--bounding-set", "-all", "--inh-caps", "-all", "--"),
    )


def _parents(path: Path, made: set[Path]) -> Iterator[str]:
    """Make the folders above a mount; left to bubblewrap, only their owner could pass through them."""
    for parent in reversed(path.parents):
        if parent not in made and parent != Path("/"):
            made.add(parent)
            yield from ("--perms", "0755", "--dir", str(parent))


def _workspace(workspace: Path, *, writable: bool) -> Iterator[tuple[str, ...]]:
    yield "--bind" if writable else "--ro-bind", str(workspace), str(workspace)
    if (workspace / ".fabric").is_dir():
        yield "--size", "4096", "--tmpfs", str(workspace / ".fabric")
        yield "--remount-ro", str(workspace / ".fabric")
    if writable:
        real = workspace.resolve()
        # A folder around a protected path is mounted too, or it could be moved away with what is in it.
        around = {name.partition("/")[0]: "--bind" for name in PROTECTED_AT_TOP if "/" in name}
        for name, option in (around | dict.fromkeys(PROTECTED_AT_TOP, "--ro-bind")).items():
            path = workspace / name
            if path.exists() and path.resolve() == real / name:  # a link would bring in what it points to
                yield option, str(path), str(path)
