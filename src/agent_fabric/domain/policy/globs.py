"""Patterns with `*` for names, paths and domains."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache


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
