"""What a command line removes, as far as its words tell: also from another folder, or by a variable."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice, pairwise, product
from typing import Final, NamedTuple

from agent_fabric.domain.commands.invocation import Invocation
from agent_fabric.domain.commands.names import names
from agent_fabric.domain.policy.globs import plain_path
from agent_fabric.domain.protected import GIT_FOLDER

UNKNOWN: Final = "\0"
"""Stands for a piece of a path that is only known at run time."""
_VITAL = names(
    "/ /bin /boot /dev /etc /home /lib /lib64 /opt /proc /root /sbin /srv /sys /usr /usr/bin /usr/lib /usr/local /var "
    "/Applications /Library /System /Users /home/* /Users/* ~"
)
_RECURSIVE = re.compile(r"--recursive|--no-preserve-root|-[A-Za-z]*[rR][A-Za-z]*")
_TREES = names("rimraf srm trash")
_FIND_STARTS = names("-L -P -H -O0 -O1 -O2 -O3 --")
_FIND_ALL = re.compile(r"-(?:mindepth|maxdepth|type|depth|d|delete|print0?|exec|execdir|ok|xdev|mount)")
_NAMES_FILES = names(
    "basename cd dirname echo fd fdfind find git ls mkdir mktemp printf pwd read test [ true false : rm xargs grep rg "
    "sort uniq wc sleep"
)
"""Programs that name files of the folder they work in, or nothing; what they say is no path of the system."""
_EXPANSION = re.compile(
    r"\$\{(?P<braced>\w+|[@*#])(?:\[[@*]\])?(?P<how>:?[-=?+])?(?P<other>[^{}]*)\}|\$(?P<plain>\w+|[@*#])"
    r"|\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`"
)
_LOOP = re.compile(r"\bfor\s+(?P<name>\w+)\s+in\s+(?P<list>[^;\n]*)")
_TOKENS = re.compile(r"""(?<![\w}])[{]?([^\s'"`;&|()<>,=\[\]{}]+)""")
_AFTER_VALUE = re.compile(r"""(\$\w+|\}|\))["']/""")
"""In `"$x"/` the slash is no word of its own."""
_GIT = re.compile(r"(?:[\w./-]*/)?\.git(?:/.*)?", re.IGNORECASE)
_CODE = re.compile(
    r"rmtree|removedirs|remove_tree|rimraf|rmSync|rmdirSync|FileUtils\.(?:rm|remove)|unlink"
    r"|\brm[\s'\x22,]+-\w*[rR]|\.delete\(|fs\.rm\b"
)
"""How programs in other languages remove a tree, or start what does."""
_INTERPRETERS = re.compile(
    r"(?:python|pypy)[0-9.]*|perl|ruby|node|deno|bun|php|lua|[gmn]?awk|sed|g?make|Rscript|tclsh|osascript"
)


class Removal(NamedTuple):
    """One thing that a command removes."""

    place: str
    """Absolute, below `~`, or relative to the workspace; with UNKNOWN for what is only known at run time."""
    shown: str
    """As the command says it."""
    tree: bool = True
    """With everything below it."""
    verb: str = "remove"
    outside: bool = True
    """Whether it matters that it lies outside of the workspace."""

    @property
    def vital(self) -> bool:
        """The system or a home folder would be lost."""
        return self.tree and is_vital(self.place.replace(UNKNOWN, ""))

    @property
    def unclear(self) -> bool:
        """It may be anything."""
        return self.tree and self.place.startswith(UNKNOWN)

    @property
    def takes_git(self) -> bool:
        """The repository's own folder would be lost, or a part of it, which no undo brings back."""
        if self.verb == "change" or self.place.startswith(("/", "~", UNKNOWN)):
            return False
        parts = self.place.casefold().split("/")
        everything = self.place == "." and self.tree and self.verb == "remove"
        return everything or any(part.startswith(".") and fnmatchcase(GIT_FOLDER, part) for part in parts)


def is_vital(path: str) -> bool:
    """Tell whether a path, perhaps with patterns, is a folder without which nothing works."""
    path = re.sub(r"^(?:~[\w-]*|\$HOME(?!\w))", "~", path)
    if not path.startswith(("/", "~")):
        return False
    path = _plain(path)
    while path.endswith(("/*", "/.*", "/**", "/?*", "/.[!.]*")):
        path = path.rpartition("/")[0] or "/"
    if path.startswith("~"):
        return path.strip("/*.") == "~" or (path.startswith("~/..") and "/" not in path[5:])
    return any(
        fnmatchcase(vital, path) or fnmatchcase(path, vital) for vital in _VITAL if vital.count("/") == path.count("/")
    )


def names_catastrophe(text: str) -> bool:
    """Tell whether a text that is not understood names both a removal of trees and a vital place."""
    return bool(_CODE.search(text) and any(map(is_vital, _vital_in(text))))


def _vital_in(text: str) -> tuple[str, ...]:
    """Return the words of a text that are vital places, or the repository's own folder."""
    tokens = _TOKENS.findall(_AFTER_VALUE.sub(r"\1/", text.replace("${HOME}", "$HOME")))
    return tuple(sorted({token for token in tokens if is_vital(token) or _GIT.fullmatch(token)}))


MAX_VALUES = 64
"""That a word may have; if there are more, it may be anything."""
MAX_WORD_CHARS = 4_096
"""The longest path that systems take."""
MAX_EXPANSIONS = 1_000
"""In one line; after that nothing is known of what a word may be."""


def _bounded(values: list[str]) -> list[str]:
    return values if len(values) <= MAX_VALUES else [*values[:MAX_VALUES], UNKNOWN]


def removals_in(text: str, found: Sequence[Invocation]) -> tuple[tuple[Removal, ...], ...]:
    """Return for each command of a line what it removes."""
    line = _Line(text, found)
    return tuple(tuple(line.removed_by(invocation)) for invocation in found)


@dataclass(slots=True)
class _Line:
    """A command line while its commands are followed one by one."""

    text: str
    found: Sequence[Invocation]
    folders: tuple[str, ...] = (".",)
    """Where the next command may work."""
    values: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """What variables may hold."""
    expansions: int = 0

    def __post_init__(self) -> None:
        for loop in _LOOP.finditer(self.text):
            self._learn(loop["name"], tuple(loop["list"].split()))

    def removed_by(self, invocation: Invocation) -> Iterator[Removal]:
        for name, value in invocation.assignments:
            self._learn(name, tuple(value.strip("()").split()) if value.startswith("(") else (value,))
        words, name = invocation.words, invocation.name
        if name == "set" and "--" in words:
            given = words[words.index("--") + 1 :]
            for parameter in ("@", "*", *map(str, range(1, len(given) + 1))):
                self._learn(parameter, given)
        if name in {"cd", "pushd"}:
            self._enter(invocation)
            return
        folders = self.folders
        chosen = [at for at, word in enumerate(words[:-1]) if word in {"-C", "--chdir", "--directory"}]
        if chosen and name in {"env", "git", "sudo", "tar"}:
            folders = tuple(self._places(invocation, chosen[0] + 1))
            if name in {"env", "sudo"}:
                self.folders = folders  # for the command that it starts, which comes next
        for target in self._targets(invocation):
            for folder in folders:
                for word in target.words:
                    place = _joined(folder, self._through_link(word))
                    yield target.removal._replace(place=place, shown=target.removal.shown or word)
        if invocation.dynamic and (_CODE.search(self.text) or re.search(r"\brm\b", self.text)):
            yield from (Removal(place, place) for place in _vital_in(self.text))
        if _INTERPRETERS.fullmatch(name):
            yield from self._removed_by_code(invocation)

    def _through_link(self, word: str) -> str:
        """Return where a path leads through a link that the line makes: `ln -s / x; rm -rf x/`."""
        name, slash, rest = word.removeprefix("./").partition("/")
        for each in self.found if slash else ():
            if each.name == "ln" and each.words[-1].removeprefix("./") == name and len(each.words) > 2:
                return f"{each.words[-2]}/{rest}".replace("${HOME}", "$HOME")
        return word

    # ── words ──

    def _learn(self, name: str, values: tuple[str, ...]) -> None:
        self.values[name] = (*self.values.get(name, ()), *(value.strip("'\"") for value in values))

    def _enter(self, invocation: Invocation) -> None:
        operands = [at for at, word in enumerate(invocation.words) if at and word not in {"-L", "-P", "-e", "-@", "--"}]
        entered = tuple(self._places(invocation, operands[0])) if operands else ("~",)
        # What stands in a subshell or a condition may hold for what follows, or not.
        self.folders = tuple(dict.fromkeys((*self.folders, *entered) if invocation.nested else entered))

    def _places(self, invocation: Invocation, at: int) -> Iterator[str]:
        for folder in self.folders:
            for word in self._expanded(invocation, at):
                yield UNKNOWN if word in {"-", "+1", "-1"} else _joined(folder, word)

    def _expanded(self, invocation: Invocation, at: int) -> list[str]:
        word = invocation.words[at]
        if at not in invocation.unknown:
            return [word]
        if word == "{}":
            return self._what_find_finds()
        variants = _with_braces(word.replace("${HOME}", "$HOME"))
        return _bounded([each for variant in variants[: MAX_VALUES + 1] for each in self._substituted(variant)])

    def _substituted(self, word: str, depth: int = 0) -> list[str]:
        self.expansions += 1
        if self.expansions > MAX_EXPANSIONS:
            return [UNKNOWN]  # variables that hold each other many times over: nobody writes that by hand
        pieces: list[tuple[str, ...]] = []
        end = 0
        for match in _EXPANSION.finditer(word):
            pieces += [(word[end : match.start()],), self._value(match, depth)]
            end = match.end()
        pieces.append((word[end:],))
        found = ["".join(parts) for parts in islice(product(*pieces), MAX_VALUES + 1)]
        return _bounded(found) if all(len(each) <= MAX_WORD_CHARS for each in found) else [UNKNOWN]

    def _value(self, match: re.Match[str], depth: int) -> tuple[str, ...]:
        name = match["braced"] or match["plain"] or ""
        if name == "HOME":
            return ("~",)
        if name == "PWD" or match[0] in {"$(pwd)", "`pwd`"}:
            return self.folders
        if match[0].startswith("$(git rev-parse --show-toplevel"):
            return (".",)
        if match[0].startswith(("$(mktemp", "`mktemp")) or name == "TMPDIR":
            return ("/tmp/made",)  # noqa: S108 - a folder of the command's own
        if match[0].startswith(("$(", "`")):
            return self._from_others()
        found = [
            each
            for value in self.values.get(name, ())
            for each in (self._substituted(value, depth + 1) if depth < 3 else [UNKNOWN])
        ]
        if match["how"] in {":-", "-", ":=", "="}:
            found += self._substituted(match["other"].strip("'\""), depth + 1)
        if match["how"] in {":+", "+"}:
            found = [match["other"].strip("'\""), ""]
        if match["how"] in {":?", "?"} and not found:
            return (UNKNOWN,)
        return tuple(_bounded(found)) or self._from_others(unset=name not in self._read())

    def _read(self) -> set[str]:
        return {word for each in self.found if each.name == "read" for word in each.words[1:] if word.isidentifier()}

    def _from_others(self, *, unset: bool = False) -> tuple[str, ...]:
        """Return what other commands of the line may name: files of this folder, or anything."""
        if vital := _vital_in(self.text):
            return vital
        if unset or not all(self._names_files_here(each) for each in self.found if each.words):
            return (UNKNOWN,)
        return ("named",)

    def _names_files_here(self, invocation: Invocation) -> bool:
        if any(redirect.operator == "<" for redirect in invocation.redirects):
            return False
        if invocation.name in {"sort", "uniq", "grep", "rg"} and len(invocation.words) > 3:
            return False
        return invocation.name in _NAMES_FILES and not any(
            word.startswith(("/", "~", "$")) or ".." in word.split("/") for word in invocation.words[1:]
        )

    def _what_find_finds(self) -> list[str]:
        roots = [
            place
            for each in self.found
            if each.name == "find" and set(each.words) & {"-exec", "-execdir", "-ok", "-okdir"}
            for at in _find_roots(each.words)
            for place in self._expanded(each, at)
        ]
        # Below a root, not the root itself: `find . -name build -exec rm -rf {} +`.
        named = GIT_FOLDER if any(_GIT.fullmatch(word) for each in self.found for word in each.words) else "named"
        return [f"{root}/{named}" for root in roots] if roots else list(self._from_others())

    # ── programs ──

    def _targets(self, invocation: Invocation) -> "Iterator[_Target]":
        words, name = invocation.words, invocation.name
        recursive = any(_RECURSIVE.fullmatch(word) for word in words[1:])
        operands = [at for at, word in enumerate(words) if at and not word.startswith("-")]
        if "--" in words:
            operands += [at for at in range(words.index("--") + 1, len(words)) if at not in operands]
        match name:
            case "rm" | "rmdir" | "unlink" | "shred":
                yield from self._each(invocation, operands, Removal("", "", tree=recursive))
            case "chmod" | "chown" | "chgrp" if recursive:
                yield from self._each(invocation, operands[1:], Removal("", "", verb="change", outside=False))
            case "find" if "-delete" in words or _removes(words):
                roots = _find_roots(words)
                everything = bool({"-o", "-or", "!", "-not"} & set(words)) or all(
                    _FIND_ALL.fullmatch(word)
                    for at, word in enumerate(words)
                    if at and word.startswith("-") and at > max(roots, default=0)
                )
                whole = Removal("", "", outside="-delete" in words)
                yield _Target(["."] if not roots else [], whole)
                for target in self._each(invocation, roots, whole):
                    yield (
                        target
                        if everything
                        else _Target(
                            [
                                word if is_vital(_joined(f, word)) else f"{word}/named"
                                for word in target.words
                                for f in self.folders
                            ],
                            whole,
                        )
                    )
            case "rsync" if any(word.startswith("--del") for word in words):
                yield from self._each(invocation, [at for at in operands[-1:] if ":" not in words[at]], Removal("", ""))
            case "git" if "clean" in words and not recursive:
                yield _Target(["named"], Removal("", "git clean"))
            case "git" if _LOSES_HISTORY.search(" ".join(words)):
                yield _Target([GIT_FOLDER], Removal("", "the history", tree=False))
            case "mv":
                yield from self._each(invocation, operands[:-1], Removal("", "", outside=False))
            case "tar" | "zip" | "rsync" if any(
                word.startswith("--remove-") or word in {"-m", "-rm", "-mr"} for word in words
            ):
                yield from self._each(invocation, operands, Removal("", "", outside=False))
            case _ if name in _TREES:
                yield from self._each(invocation, operands, Removal("", ""))
            case _ if invocation.dynamic and recursive:
                # `$x -rf /`: whatever the program is, it looks like a removal.
                yield from self._each(invocation, operands, Removal("", "", outside=False))
            case _:
                pass
        if name in _WRITERS:
            written = operands if name in {"tee", "truncate"} else operands[-1:]
            yield from self._each(invocation, written, _OVERWRITTEN)
        for redirect in invocation.redirects:
            if redirect.operator.startswith((">", "&>", "<>")) and not redirect.unknown:
                yield _Target([redirect.target], _OVERWRITTEN._replace(shown=redirect.target))

    def _each(self, invocation: Invocation, places: Sequence[int], removal: Removal) -> "Iterator[_Target]":
        for at in places:
            yield _Target(self._expanded(invocation, at), removal._replace(shown=invocation.words[at]))

    def _removed_by_code(self, invocation: Invocation) -> Iterator[Removal]:
        """Yield the vital places in a program that stands in the command line and removes trees."""
        texts = [
            *invocation.words[1:],
            *(each.target for each in invocation.redirects if each.operator.startswith("<<")),
        ]
        code = "\n".join(texts)
        if not _CODE.search(code):
            return
        for token in (each.strip("\\,:") for each in _TOKENS.findall(code)):
            if is_vital(token) or _GIT.fullmatch(token):
                yield Removal(_joined(".", token), token)
        if "expanduser" in code or "Path.home()" in code or "homedir()" in code:
            yield Removal("~", "the home folder")


_WRITERS = names("cp install ln mv tee truncate")
_OVERWRITTEN = Removal("", "", tree=False, verb="overwrite", outside=False)
_LOSES_HISTORY = re.compile(
    r"\b(?:gc .*--prune|reflog (?:expire|delete)|filter-branch|filter-repo)|git (?:\S+ )*prune\b"
)


class _Target(NamedTuple):
    words: Sequence[str]
    removal: Removal


def _find_roots(words: Sequence[str]) -> list[int]:
    roots: list[int] = []
    for at, word in enumerate(words[1:], start=1):
        if word in _FIND_STARTS:
            continue
        if word.startswith(("-", "(", "!", "\\(")):
            break
        roots.append(at)
    return roots


def _removes(words: Sequence[str]) -> bool:
    return any(
        word in {"-exec", "-execdir", "-ok", "-okdir"}
        and after.rpartition("/")[2] in {"rm", "rmdir", "unlink", "shred"}
        for word, after in pairwise(words)
    )


def _with_braces(word: str) -> list[str]:
    """Return the words that `{a,b}` stands for."""
    match = re.search(r"(?<!\$)\{([^{}]*,[^{}]*)\}", word)
    if match is None:
        return [word]
    return [
        each
        for part in match[1].split(",")
        for each in _with_braces(word[: match.start()] + part + word[match.end() :])
    ][:64]


def _joined(folder: str, word: str) -> str:
    """Return where a path leads from a folder."""
    if word.startswith(("/", "~", UNKNOWN)):
        return _plain(word)
    return _plain(f"{folder}/{word}") if folder != "." else _plain(word)


def _plain(path: str) -> str:
    if path.startswith(UNKNOWN) and len(path) > 1 and is_vital(path[1:]):
        return UNKNOWN
    if path.startswith("~"):
        home, _, rest = path.partition("/")
        rest = plain_path(rest)
        return f"{home}/{rest}" if rest else home
    plain = plain_path(path)
    # `/..` is `/`.
    return re.sub(r"^(?:/\.\.)+(?=/|$)", "", plain) or "/" if path.startswith("/") else plain or "."
