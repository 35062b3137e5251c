"""Paths without which nothing works: folders of the system, home folders, disks."""

import re
from fnmatch import fnmatchcase
from typing import Final

from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.globs import plain_path

UNKNOWN: Final = "\0"
"""Stands for a piece of a path that is only known at run time."""
_VITAL = names(
    "/ /bin /boot /dev /etc /home /lib /lib64 /opt /proc /root /sbin /srv /sys /usr /usr/bin /usr/lib /usr/local /var "
    "/Applications /Library /System /Users /home/* /Users/* ~"
)
_DEVICES = "/dev/"
_QUIET_DEVICES = re.compile(
    r"(?:null|zero|full|u?random|std(?:in|out|err)|console|ptmx|kvm|fuse|n?st\d|(?:tty|video|hidraw|snd|dri|fb)\w*)"
    r"|(?:fd|pts|shm|tcp|udp|mqueue|snd|dri|input|net|serial)(?:/.*)?",
    re.DOTALL,
)
"""In `/dev`: what loses nothing when it is written to. All else may hold a disk, or the memory of the machine."""
_SECRETS = re.compile(
    r"(?:^|[/=~])(?:\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.netrc|\.pgpass|\.docker/config\.json|\.config/gcloud|\.fabric"
    r"|\.git-credentials|\.npmrc|\.pypirc)(?:/|$)|^/etc/(?:shadow|gshadow|sudoers)|/proc/[^/]+/(?:environ|mem|maps)|^/dev/"
)
_SECRET_NAMES = names(
    ".ssh .gnupg .aws .azure .kube .netrc .pgpass .docker .config .fabric .git-credentials .npmrc .pypirc"
)
_SECRET_FILES = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers")
_HOLDS_HOMES = re.compile(r"/|~[\w-]*|/root|/home(?:/[^/]+)?|/Users(?:/[^/]+)?")
_PATTERN = frozenset("*?[")
MAX_PATH_CHARS: Final = 4_096
"""The longest path that systems take."""


def is_secret(path: str, *, below: bool = False) -> bool:
    """Tell whether a path, perhaps with patterns, is where keys and passwords are kept; `below`: also what it holds."""
    if _SECRETS.search(path) or (below and _HOLDS_HOMES.fullmatch(path)):
        return True
    if not _PATTERN.intersection(path):
        return False
    if len(path) > MAX_PATH_CHARS:
        return True
    # As in bash, a pattern fits a name with a dot only if it begins with one.
    hidden = [part for part in path.split("/") if part.startswith(".") and _PATTERN.intersection(part)]
    deep = path.startswith("/") and path.count("/") == 2
    return (deep and any(fnmatchcase(secret, path) for secret in _SECRET_FILES)) or any(
        fnmatchcase(secret, part) for part in hidden for secret in _SECRET_NAMES
    )


def is_vital(path: str) -> bool:
    """Tell whether a path, perhaps with patterns, is a folder without which nothing works."""
    path = re.sub(r"^(?:~[\w-]*|\$HOME(?!\w))", "~", path)
    if not path.startswith(("/", "~")):
        return False
    path = plain_place(path)
    while path.endswith(("/*", "/.*", "/**", "/?*", "/.[!.]*")):
        path = path.rpartition("/")[0] or "/"
    if path.startswith("~"):
        return path.strip("/*.") == "~" or (path.startswith("~/..") and "/" not in path[5:])
    return any(
        fnmatchcase(vital, path) or fnmatchcase(path, vital) for vital in _VITAL if vital.count("/") == path.count("/")
    )


def is_disk(place: str) -> bool:
    """Tell whether a path is a device that loses data when it is written to; one that is not known for sure counts."""
    if place == _DEVICES.rstrip("/"):
        return True
    return place.startswith(_DEVICES) and not _QUIET_DEVICES.fullmatch(place[len(_DEVICES) :])


def is_quiet_device(place: str) -> bool:
    """Tell whether a path is a device that neither holds nor loses anything."""
    return place.startswith(_DEVICES) and _QUIET_DEVICES.fullmatch(place[len(_DEVICES) :]) is not None


def may_be_device(place: str) -> bool:
    """Tell whether a path may turn out to lie in `/dev`."""
    return UNKNOWN in place and _DEVICES.startswith(place.partition(UNKNOWN)[0])


def names_device(text: str) -> bool:
    """Tell whether a text names a device that loses data, or the folder of devices."""
    return any(is_disk(f"{_DEVICES}{found[1]}") for found in re.finditer(r"/dev\b/?([^\s'\"`;&|()<>,=]*)", text))


def join_path(folder: str, word: str) -> str:
    """Return where a path leads from a folder."""
    if word.startswith(("/", "~", UNKNOWN)):
        return plain_place(word)
    return plain_place(f"{folder}/{word}") if folder != "." else plain_place(word)


def plain_place(path: str) -> str:
    """Return a path without `.` and `..`, as far as it is known."""
    if path.startswith(UNKNOWN) and len(path) > 1 and is_vital(path[1:]):
        return UNKNOWN
    if path.startswith("~"):
        home, _, rest = path.partition("/")
        rest = plain_path(rest)
        return f"{home}/{rest}" if rest else home
    plain = plain_path(path)
    # `/..` is `/`.
    return re.sub(r"^(?:/\.\.)+(?=/|$)", "", plain) or "/" if path.startswith("/") else plain or "."
