"""Patterns with `*` for names, paths and domains, and the machines that addresses and words name."""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from urllib.parse import urlsplit


def any_name(patterns: Iterable[str], name: str) -> bool:
    """Tell whether one of the patterns fits a name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@lru_cache(maxsize=4096)
def path_fits(pattern: str, path: str) -> bool:
    """Tell whether a path fits a pattern: `*` stays within a folder, `**` stands for any number of folders.

    A pattern that ends in `/` means everything below. One without any `/` fits that name in every folder.
    """
    return _parts_fit(_pattern_parts(pattern), tuple(plain_path(path).split("/")))


def may_fit_below(pattern: str, folder: str) -> bool:
    """Tell whether something below a folder may fit a pattern."""
    wanted, reached = _pattern_parts(pattern), {0}
    for part in filter(None, plain_path(folder).split("/")) if plain_path(folder) else ():
        reached = _forward(_closure(reached, wanted), wanted, part)
    return bool(reached)


def _pattern_parts(pattern: str) -> tuple[str, ...]:
    if pattern.endswith("/"):
        pattern += "**"
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    return tuple(part for part in pattern.split("/") if part != ".")


def _parts_fit(wanted: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    # `reached` are the numbers of pattern parts that can be used up by now: no backtracking, whatever the pattern.
    reached = _closure({0}, wanted)
    for part in parts:
        reached = _closure(_forward(reached, wanted, part), wanted)
        if not reached:
            return False
    return len(wanted) in reached


def _forward(reached: set[int], wanted: tuple[str, ...], part: str) -> set[int]:
    forward = {at for at in reached if at < len(wanted) and wanted[at] == "**"}
    return forward | {
        at + 1 for at in reached if at < len(wanted) and wanted[at] != "**" and fnmatchcase(part, wanted[at])
    }


def _closure(reached: set[int], wanted: tuple[str, ...]) -> set[int]:
    """Add what can be reached without a further part, since `**` may stand for nothing."""
    found = set(reached)
    for at in sorted(reached):
        place = at
        while place < len(wanted) and wanted[place] == "**":
            place += 1
            found.add(place)
    return found


def plain_path(path: str) -> str:
    """Return a path without `.` and empty parts, and with `..` taken back where that is possible."""
    parts: list[str] = []
    for part in path.split("/"):
        if part in {"", "."}:
            continue
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def domain_fits(pattern: str, host: str) -> bool:
    """Tell whether a host is the domain, lies below it, or fits a pattern with `*`."""
    pattern, host = pattern.lower().rstrip("."), host.lower().rstrip(".")
    if "*" in pattern or "?" in pattern:
        return fnmatchcase(host, pattern)
    return host == pattern or host.endswith(f".{pattern}")


# Machines that addresses and words name.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_REMOTE = re.compile(r"(?:[^/@\s:]+@)?([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|\[[0-9a-fA-F:.]+\]):(?!//)")
_USER = re.compile(r"(?<=//)[^/?#]*@")
_NAME = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}(?::\d+)?(?:/\S*)?")


def host_of(url: str) -> str:
    """Return the host that an address names, in small letters; empty if none can be read from it."""
    # Browsers read a backslash as a slash, urlsplit does not.
    url = url.replace("\\", "/")
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:  # as brackets in place of a user's hidden password are
        bare = _USER.sub("", url)
        return host_of(bare) if bare != url else ""


def hosts_in(words: Iterable[str]) -> list[str]:
    """Return the hosts that words of a command name: in addresses, as `user@host:path`, or plainly."""
    found: list[str] = []
    for word in words:
        if addresses := _ADDRESS.findall(word):
            found.extend(host for address in addresses if (host := host_of(address)))
        elif remote := _REMOTE.match(word):
            found.append(remote[1].lower())
        elif "." in word and _NAME.fullmatch(word):
            found.append(word.partition("/")[0].partition(":")[0].lower())
    return found
