"""What a command may see of the environment: nothing that is not on a list."""

import os
from collections.abc import Callable, Mapping

PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
PLACES = frozenset(
    (
        *("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "JAVA_HOME", "GOPATH", "GOROOT"),
        *("CARGO_HOME", "RUSTUP_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("GIT_SSL_CAINFO", "PIP_CERT"),
    )
)
"""Variables that name one file or folder."""
_LOCALE = (
    *("ALL", "ADDRESS", "COLLATE", "CTYPE", "IDENTIFICATION", "MEASUREMENT", "MESSAGES", "MONETARY", "NAME", "NUMERIC"),
    *("PAPER", "TELEPHONE", "TIME"),
)
PASSED_ON = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *(f"LC_{name}" for name in _LOCALE),
        *PLACES,
        *PROXIES,
        *(name.upper() for name in PROXIES),
    )
)
"""Variables a command may see. A proxy whose address holds a password is left out.

Other names that begin with LC_ are none of a locale: ssh passes on whatever people call so."""

_PYTHON = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Bytecode is told from its source by second and size: after an edit within a second, tests would run the old code."""
_GIT_SETTINGS = {"safe.bareRepository": "explicit", "core.fsmonitor": "false"}
"""A folder that only looks like a repository is not obeyed, and reading starts no program that a repository names."""
_GIT = {"GIT_CONFIG_COUNT": str(len(_GIT_SETTINGS)), "GIT_OPTIONAL_LOCKS": "0"} | {
    f"GIT_CONFIG_{part}_{n}": text
    for n, setting in enumerate(_GIT_SETTINGS.items())
    for part, text in zip(("KEY", "VALUE"), setting, strict=True)
}
"""Variables for every git that a command starts. They win over the settings of repositories."""
SET = _GIT | _PYTHON
"""Variables that every command has, whatever the level."""


def allowed_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a command may see of an environment."""
    seen = {
        name: value
        for name, value in environment.items()
        if name in PASSED_ON and not (name.lower() in PROXIES and "@" in value)
    }
    path = os.pathsep.join(entry for entry in seen.get("PATH", "").split(os.pathsep) if entry.startswith("/"))
    return seen | SET | {"PATH": path or os.defpath, "TERM": "dumb"}


def box_environment(
    environment: Mapping[str, str], *, home: str, is_visible: Callable[[str], bool], proxy: str | None
) -> dict[str, str]:
    """Return the environment of commands in a box with its own view of files; places it does not see are left out.

    `proxy` is the address of the only way out; None: there is none.
    """
    seen = allowed_variables(environment)
    for name in (*PROXIES, *(name.upper() for name in PROXIES), "TMPDIR"):
        seen.pop(name, None)
    for name in PLACES & seen.keys():
        if not is_visible(seen[name]):
            del seen[name]
    if proxy is not None:
        ways = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), proxy)
        seen |= ways | {name.upper(): value for name, value in ways.items()}
        seen |= {"no_proxy": "localhost,127.0.0.1,::1", "NO_PROXY": "localhost,127.0.0.1,::1"}
    path = os.pathsep.join(entry for entry in seen["PATH"].split(os.pathsep) if entry and is_visible(entry))
    return seen | {"PATH": path or os.defpath, "HOME": home, "USER": "fabric", "LOGNAME": "fabric", "TMPDIR": "/tmp"}  # noqa: S108
