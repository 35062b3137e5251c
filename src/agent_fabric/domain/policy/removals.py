"""What a command line removes, as far as its words tell: also from another folder, or by a variable."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import NamedTuple

from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.command_tools import edits_in_place
from agent_fabric.domain.policy.followed_line import FollowedLine, find_roots
from agent_fabric.domain.policy.inline_code import is_interpreter, removed_by_code, removes, vital_in
from agent_fabric.domain.policy.places import UNKNOWN, is_disk, is_vital, join_path, may_be_device, names_device
from agent_fabric.domain.policy.protected import GIT_FOLDER

_RECURSIVE = re.compile(r"--recursive|--no-preserve-root|-[A-Za-z]*[rR][A-Za-z]*")
_TREES = names("rimraf srm trash")
_FIND_ALL = re.compile(r"-(?:mindepth|maxdepth|type|depth|d|delete|print0?|exec|execdir|ok|xdev|mount)")
_EXEC = names("-exec -execdir -ok -okdir")
_REMOTE = re.compile(r"[^/$`]*:")


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


def removed_by(line: FollowedLine, invocation: Invocation, folders: Sequence[str]) -> Iterator[Removal]:
    """Yield what a command of a line removes that may work in these folders."""
    if invocation.name in {"cd", "pushd"}:
        return
    for target in _targets(line, invocation):
        for folder in folders:
            for word in target.words:
                place = join_path(folder, line.through_link(word))
                yield target.removal._replace(place=place, shown=target.removal.shown or word)
    if invocation.dynamic and (removes(line.text) or re.search(r"\brm\b", line.text)):
        yield from (Removal(place, place) for place in vital_in(line.text))
    coded = is_interpreter(invocation)
    held = [each for at in sorted(invocation.unknown if coded else ()) for each in line.expand_at(invocation, at)]
    for code in removed_by_code(invocation, line.text, line.found, held):
        removal = _OVERWRITTEN if code.disk else Removal("", "")
        yield removal._replace(place=code.place, shown=code.shown)


def _targets(line: FollowedLine, invocation: Invocation) -> "Iterator[_Target]":
    words, name = invocation.words, invocation.name
    recursive = any(_RECURSIVE.fullmatch(word) for word in words[1:])
    operands = [at for at, word in enumerate(words) if at and not word.startswith("-")]
    if "--" in words:
        operands += [at for at in range(words.index("--") + 1, len(words)) if at not in operands]
    match name:
        case "rm" | "rmdir" | "unlink" | "shred":
            yield from _each(line, invocation, operands, Removal("", "", tree=recursive))
        case "chmod" | "chown" | "chgrp" if recursive:
            yield from _each(line, invocation, operands[1:], Removal("", "", verb="change", outside=False))
        case "find" if "-delete" in words or _removes(words):
            roots = find_roots(words)
            tests = words[
                max(roots, default=0) + 1 : next((at for at, word in enumerate(words) if word in _EXEC), None)
            ]
            everything = bool({"-o", "-or", "!", "-not"} & set(words)) or all(
                _FIND_ALL.fullmatch(word) for word in tests if word.startswith("-")
            )
            whole = Removal("", "", outside="-delete" in words)
            yield _Target(["."] if not roots else [], whole)
            for target in _each(line, invocation, roots, whole):
                yield (
                    target
                    if everything
                    else _Target(
                        [
                            word if is_vital(join_path(f, word)) else f"{word}/named"
                            for word in target.words
                            for f in line.folders
                        ],
                        whole,
                    )
                )
        case "rsync" if any(word.startswith("--del") for word in words):
            yield from _each(
                line, invocation, [at for at in operands[-1:] if not _REMOTE.match(words[at])], Removal("", "")
            )
        case "git" if "clean" in words and not recursive:
            yield _Target(["named"], Removal("", "git clean"))
        case "git" if _LOSES_HISTORY.search(" ".join(words)):
            yield _Target([GIT_FOLDER], Removal("", "the history", tree=False))
        case "mv":
            yield from _each(line, invocation, operands[:-1], Removal("", "", outside=False))
        case "tar" | "zip" | "rsync" if any(
            word.startswith("--remove-") or word in {"-m", "-rm", "-mr"} for word in words
        ):
            yield from _each(line, invocation, operands, Removal("", "", outside=False))
        case "tar" if any(word.startswith("--recursive-u") for word in words):
            # What the archive holds is removed first, wherever it is.
            yield _Target(["."], Removal("", "--recursive-unlink", outside=False))
        case _ if name in _TREES:
            yield from _each(line, invocation, operands, Removal("", ""))
        case _ if invocation.dynamic and recursive:
            # `$x -rf /`: whatever the program is, it looks like a removal.
            yield from _each(line, invocation, operands, Removal("", "", outside=False))
        case _:
            pass
    yield from _overwritten(line, invocation, operands)


def _overwritten(line: FollowedLine, invocation: Invocation, operands: Sequence[int]) -> "Iterator[_Target]":
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
        found = line.expand(word, unknown=unknown)
        if not copies and not names_device(line.text):
            # Only known at run time: an everyday file, unless the line is about devices.
            found = [each for each in found if not each.startswith(UNKNOWN)]
        yield _Target(found, _OVERWRITTEN._replace(shown=word))


def _each(line: FollowedLine, invocation: Invocation, places: Sequence[int], removal: Removal) -> "Iterator[_Target]":
    for at in places:
        yield _Target(line.expand_at(invocation, at), removal._replace(shown=invocation.words[at]))


_WRITE_ALL = names("shred sponge tee truncate")
_WRITE_LAST = names("cp ddrescue install ln mv qemu-img rsync")
_OUTPUT = re.compile(r"(?:of=|-[oO]|--out(?:put(?:-document|-file)?)?(?:=|$))(?P<value>.*)", re.DOTALL)
_OVERWRITTEN = Removal("", "", tree=False, verb="overwrite", outside=False)
_LOSES_HISTORY = re.compile(
    r"\b(?:gc .*--prune|reflog (?:expire|delete)|filter-branch|filter-repo)|git (?:\S+ )*prune\b"
)


class _Target(NamedTuple):
    words: Sequence[str]
    removal: Removal


def _removes(words: Sequence[str]) -> bool:
    return any(
        word in _EXEC and after.rpartition("/")[2] in {"rm", "rmdir", "unlink", "shred"}
        for word, after in pairwise(words)
    )
