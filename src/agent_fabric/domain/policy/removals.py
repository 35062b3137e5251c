"""What a command line removes, as far as its words tell: also from another folder, or by a variable."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice, pairwise, product
from typing import NamedTuple

from agent_fabric.domain.commands.invocation import Connector, Invocation
from agent_fabric.domain.commands.names import names
from agent_fabric.domain.commands.variables import DECLARES, assigned
from agent_fabric.domain.policy.command_tools import edits_in_place
from agent_fabric.domain.policy.inline_code import GIT, removed_by_code, removes, vital_in
from agent_fabric.domain.policy.parameters import apply_form, parameter_in, pieces_of, split_words
from agent_fabric.domain.policy.places import UNKNOWN, is_disk, is_vital, joined, may_be_device, names_device
from agent_fabric.domain.protected import GIT_FOLDER

_RECURSIVE = re.compile(r"--recursive|--no-preserve-root|-[A-Za-z]*[rR][A-Za-z]*")
_TREES = names("rimraf srm trash")
_FIND_STARTS = names("-L -P -H -O0 -O1 -O2 -O3 --")
_FIND_ALL = re.compile(r"-(?:mindepth|maxdepth|type|depth|d|delete|print0?|exec|execdir|ok|xdev|mount)")
_NAMES_FILES = names(
    "basename cd dirname echo fd fdfind find git ls mkdir mktemp printf pwd read test [ true false : rm xargs grep rg "
    "sort uniq wc sleep"
)
"""Programs that name files of the folder they work in, or nothing; what they say is no path of the system."""
_REMOTE = re.compile(r"[^/$`]*:")
_LISTS_FILES = names("-l -L --files --files-with-matches --files-without-match -rl -lr -rL")
_GIT_SAYS = names("archive blame cat-file config for-each-ref grep log notes show var")
"""Actions of git that say what is in files, settings or commits."""
_LOOP = re.compile(r"\b(?:for|select)\s+(?P<name>\w+)(?:\s+in\s+(?P<list>[^;\n]*)|\s*(?:;|\bdo\b))")
_ADDS = re.compile(r"\b(?P<name>[A-Za-z_]\w*)\+=(?!\()")
_CHANGES_VALUE = re.compile(r"[-+]\w*[inluc]\w*")
"""Options of `declare` by which a variable holds something else than it is given: a number, another variable."""


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
        """The system, a home folder or a disk would be lost; what is only known at run time is the worst it can be."""
        if self.verb == "overwrite":
            return is_disk(self.place)
        return self.tree and any(is_vital(self.place.replace(UNKNOWN, anything)) for anything in ("", "*"))

    @property
    def unclear(self) -> bool:
        """It may be anything."""
        return may_be_device(self.place) if self.verb == "overwrite" else self.tree and self.place.startswith(UNKNOWN)

    @property
    def takes_git(self) -> bool:
        """The repository's own folder would be lost, or a part of it, which no undo brings back."""
        if self.verb == "change" or self.place.startswith(("/", "~", UNKNOWN)):
            return False
        parts = self.place.casefold().split("/")
        everything = self.place == "." and self.tree and self.verb == "remove"
        return everything or any(part.startswith(".") and fnmatchcase(GIT_FOLDER, part) for part in parts)


def names_catastrophe(text: str) -> bool:
    """Tell whether a text that is not understood names both a removal of trees and a vital place."""
    return bool(removes(text) and any(map(is_vital, vital_in(text))))


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
            self._learn(loop["name"], tuple(split_words(loop["list"])) if loop["list"] else (UNKNOWN,))
        for added in _ADDS.finditer(self.text):
            self._learn(added["name"], (UNKNOWN,))

    def removed_by(self, invocation: Invocation) -> Iterator[Removal]:
        for name, value in assigned(invocation):
            self._learn(name, self._given(invocation, value))
        words, name = invocation.words, invocation.name
        if name == "set" and "--" in words:
            given = words[words.index("--") + 1 :]
            for parameter in ("@", "*", *map(str, range(1, len(given) + 1))):
                self._learn(parameter, given)
        if name in {"cd", "pushd"}:
            self._enter(invocation)
            return
        folders = self.folders
        if name in {"env", "git", "sudo", "tar"} and (chosen := list(self._chosen_folders(invocation))):
            folders = tuple(chosen)
            if name in {"env", "sudo"}:
                self.folders = folders  # for the command that it starts, which comes next
        for target in self._targets(invocation):
            for folder in folders:
                for word in target.words:
                    place = joined(folder, self._through_link(word))
                    yield target.removal._replace(place=place, shown=target.removal.shown or word)
        if invocation.dynamic and (removes(self.text) or re.search(r"\brm\b", self.text)):
            yield from (Removal(place, place) for place in vital_in(self.text))
        for code in removed_by_code(invocation, self.text, self.found):
            removal = _OVERWRITTEN if code.disk else Removal("", "")
            yield removal._replace(place=code.place, shown=code.shown)

    def _through_link(self, word: str) -> str:
        """Return where a path leads through a link that the line makes: `ln -s / x; rm -rf x/`."""
        name, slash, rest = word.removeprefix("./").partition("/")
        for each in self.found if slash else ():
            if each.name == "ln" and each.words[-1].removeprefix("./") == name and len(each.words) > 2:
                return f"{each.words[-2]}/{rest}".replace("${HOME}", "$HOME")
        return word

    # ── words ──

    def _given(self, invocation: Invocation, value: str | None) -> tuple[str, ...]:
        """Return what a command may put into a variable."""
        if value is None:
            return self._from_others()
        if invocation.name in DECLARES and any(map(_CHANGES_VALUE.fullmatch, invocation.words)):
            return (UNKNOWN,)
        if value.startswith("("):
            return tuple(split_words(value[1:].removesuffix(")")))
        return (value,) if value else ()

    def _learn(self, name: str, values: tuple[str, ...]) -> None:
        self.values[name] = (*self.values.get(name, ()), *(value.strip("'\"") for value in values))

    def _enter(self, invocation: Invocation) -> None:
        operands = [at for at, word in enumerate(invocation.words) if at and word not in {"-L", "-P", "-e", "-@", "--"}]
        entered = tuple(self._places(invocation, operands[0])) if operands else ("~",)
        # What stands in a subshell or a condition may hold for what follows, or not.
        self.folders = tuple(dict.fromkeys((*self.folders, *entered) if invocation.nested else entered))

    def _chosen_folders(self, invocation: Invocation) -> Iterator[str]:
        """Yield where an option makes a program work: `-C x`, `-Cx`, `-xzC x`, `--directory=x`."""
        for at, word in enumerate(invocation.words[1:], start=1):
            match = _FOLDER_OPTION.fullmatch(word)
            if match is not None and match["value"]:
                yield from self._joined_to_folders(self._expand(match["value"], unknown=at in invocation.unknown))
            elif match is not None and at + 1 < len(invocation.words):
                yield from self._places(invocation, at + 1)

    def _places(self, invocation: Invocation, at: int) -> Iterator[str]:
        yield from self._joined_to_folders(self._expanded(invocation, at))

    def _joined_to_folders(self, words: Sequence[str]) -> Iterator[str]:
        for folder in self.folders:
            for word in words:
                yield UNKNOWN if word in {"-", "+1", "-1"} else joined(folder, word)

    def _expanded(self, invocation: Invocation, at: int) -> list[str]:
        return self._expand(invocation.words[at], unknown=at in invocation.unknown)

    def _expand(self, word: str, *, unknown: bool) -> list[str]:
        if not unknown:
            return [word]
        if word == "{}":
            return self._what_find_finds()
        if word.startswith(("~+", "~-")):
            word = f".{word[2:]}" if word[1] == "+" else f"{UNKNOWN}{word[2:]}"
        variants = _with_braces(word)
        return _bounded([each for variant in variants[: MAX_VALUES + 1] for each in self._substituted(variant)])

    def _substituted(self, word: str, depth: int = 0) -> list[str]:
        self.expansions += 1
        if self.expansions > MAX_EXPANSIONS:
            return [UNKNOWN]  # variables that hold each other many times over: nobody writes that by hand
        parts: list[tuple[str, ...]] = []
        for piece in pieces_of(word):
            parts += [(piece.literal,), *((self._value(piece.expansion, depth),) if piece.expansion else ())]
        found = ["".join(each) for each in islice(product(*parts), MAX_VALUES + 1)]
        return _bounded(found) if all(len(each) <= MAX_WORD_CHARS for each in found) else [UNKNOWN]

    def _value(self, expansion: str, depth: int) -> tuple[str, ...]:
        if expansion.startswith(("$(mktemp", "`mktemp")):
            return ("/tmp/made",)  # noqa: S108 - a folder of the command's own
        if expansion in {"$(pwd)", "`pwd`"}:
            return self.folders
        if expansion.startswith("$(git rev-parse --show-toplevel"):
            return (".",)
        if expansion.startswith(("$(", "`")):
            return self._from_others()
        parameter = parameter_in(expansion)
        if parameter is None:
            return (UNKNOWN,)
        found = self._held(parameter.name, depth)
        if parameter.indirect:
            found = [each for name in found for each in (self._held(name, depth) if name.isidentifier() else [UNKNOWN])]
        how = re.match(r":?[-=?+]", parameter.rest)
        other = parameter.rest[how.end() :].strip("'\"") if how else ""
        match how[0].lstrip(":") if how else "":
            case "-" | "=":
                found += self._substituted(other, depth + 1)
            case "+":
                found = [*self._substituted(other, depth + 1), ""]
            case "?":
                found = found or [UNKNOWN]
            case _ if parameter.rest:
                found = [apply_form(each, parameter.rest, every=parameter.every) for each in found]
            case _:
                pass
        return tuple(_bounded(found)) or self._from_others(unset=parameter.name not in self._read())

    def _held(self, name: str, depth: int) -> list[str]:
        """Return what a variable may hold."""
        match name:
            case "HOME":
                return ["~"]
            case "PWD":
                return list(self.folders)
            case "TMPDIR":
                return ["/tmp/made"]  # noqa: S108 - a folder of the command's own
            case _:
                values = self.values.get(name, ())
                return [each for value in values for each in self._nested(value, depth)]

    def _nested(self, value: str, depth: int) -> list[str]:
        return self._substituted(value, depth + 1) if depth < 3 else [UNKNOWN]

    def _read(self) -> set[str]:
        return {word for each in self.found if each.name == "read" for word in each.words[1:] if word.isidentifier()}

    def _from_others(self, *, unset: bool = False) -> tuple[str, ...]:
        """Return what other commands of the line may name: files of this folder, or anything."""
        if vital := vital_in(self.text):
            return vital
        piped = any(each.connector is Connector.PIPE for each in self.found)
        if unset or not all(_names_files_here(each, piped=piped) for each in self.found):
            return (UNKNOWN,)
        return ("named",)

    def _what_find_finds(self) -> list[str]:
        roots = [
            place
            for each in self.found
            if each.name == "find" and set(each.words) & {"-exec", "-execdir", "-ok", "-okdir"}
            for at in _find_roots(each.words)
            for place in self._expanded(each, at)
        ]
        # Below a root, not the root itself: `find . -name build -exec rm -rf {} +`.
        named = GIT_FOLDER if any(GIT.fullmatch(word) for each in self.found for word in each.words) else "named"
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
                                word if is_vital(joined(f, word)) else f"{word}/named"
                                for word in target.words
                                for f in self.folders
                            ],
                            whole,
                        )
                    )
            case "rsync" if any(word.startswith("--del") for word in words):
                yield from self._each(
                    invocation, [at for at in operands[-1:] if not _REMOTE.match(words[at])], Removal("", "")
                )
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
            case "tar" if any(word.startswith("--recursive-u") for word in words):
                # What the archive holds is removed first, wherever it is.
                yield _Target(["."], Removal("", "--recursive-unlink", outside=False))
            case _ if name in _TREES:
                yield from self._each(invocation, operands, Removal("", ""))
            case _ if invocation.dynamic and recursive:
                # `$x -rf /`: whatever the program is, it looks like a removal.
                yield from self._each(invocation, operands, Removal("", "", outside=False))
            case _:
                pass
        yield from self._written(invocation, operands)

    def _written(self, invocation: Invocation, operands: Sequence[int]) -> "Iterator[_Target]":
        """Yield the files that a command overwrites."""
        words, name = invocation.words, invocation.name
        writes_all = name in _WRITE_ALL or edits_in_place(invocation)
        places = operands if writes_all else operands[-1:] if name in _WRITE_LAST else []
        written = [(words[at], at in invocation.unknown) for at in places]
        for at, word in enumerate(words[1:], start=1):
            match = _OUTPUT.fullmatch(word)
            if match is not None and match["value"]:
                written.append((match["value"], at in invocation.unknown))
            elif match is not None and at + 1 < len(words) and not word.endswith("="):
                written.append((words[at + 1], at + 1 in invocation.unknown))
        written += [(each.target, each.unknown) for each in invocation.redirects if each.writes_file]
        copies = any(word.startswith("of=") for word in words)
        for word, unknown in written:
            found = self._expand(word, unknown=unknown)
            if not copies and not names_device(self.text):
                # Only known at run time: an everyday file, unless the line is about devices.
                found = [each for each in found if not each.startswith(UNKNOWN)]
            yield _Target(found, _OVERWRITTEN._replace(shown=word))

    def _each(self, invocation: Invocation, places: Sequence[int], removal: Removal) -> "Iterator[_Target]":
        for at in places:
            yield _Target(self._expanded(invocation, at), removal._replace(shown=invocation.words[at]))


_WRITE_ALL = names("shred sponge tee truncate")
_WRITE_LAST = names("cp ddrescue install ln mv qemu-img rsync")
_OUTPUT = re.compile(r"(?:of=|-[oO]|--out(?:put(?:-document|-file)?)?(?:=|$))(?P<value>.*)", re.DOTALL)
_FOLDER_OPTION = re.compile(r"(?:--(?:chdir|dir|directory)(?:=|$)|-[A-Za-z]*C)(?P<value>.*)", re.DOTALL)
_ARGUMENT_FILE = re.compile(r"-[0rtpxo]*a.*|--a.*", re.DOTALL)
"""With it, xargs reads a file that nothing is known of."""
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


def _names_files_here(invocation: Invocation, *, piped: bool) -> bool:
    """Tell whether what a command says, if anything, are names of files in the folder that it works in."""
    if any(redirect.operator.startswith("<") for redirect in invocation.redirects):
        return False
    name, words = invocation.name, invocation.words[1:]
    said = [word for word in words if not word.startswith("-")]
    match name:
        case "" | "rm":
            return True
        case "read" | "xargs" if not piped or (name == "xargs" and any(map(_ARGUMENT_FILE.fullmatch, words))):
            return False
        case "sort" | "uniq" if said:
            return False
        case "grep" | "rg" if not _LISTS_FILES.intersection(words) and (len(said) > 1 or name == "rg"):
            return False
        case "git" if _GIT_SAYS.intersection(said):
            return False
        case "echo" | "printf" | "find" if any("\\" in word for word in words):
            return False
        case _:
            pieces = [piece for word in words for piece in word.split()]
            return name in _NAMES_FILES and not any(
                piece.startswith(("/", "~", "$")) or ".." in piece.split("/") for piece in pieces
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
