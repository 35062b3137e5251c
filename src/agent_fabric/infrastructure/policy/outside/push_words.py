"""The words of a `git push`."""

from dataclasses import dataclass

from agent_fabric.domain.policy.outside_plan import CannotRunOutside

_SILENT = frozenset({"-v", "--verbose", "-q", "--quiet", "--progress", "--no-progress", "--no-verify", "--porcelain"})
_FORCE = frozenset({"-f", "--force"})
_UPSTREAM = frozenset({"-u", "--set-upstream"})
_DRY_RUN = frozenset({"-n", "--dry-run"})
_DELETE = frozenset({"-d", "--delete"})
_LEASE = "--force-with-lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushWords:
    """What a `git push` asks for."""

    folder: str = "."
    """Where the repository lies in the workspace."""
    remote: str = ""
    refspecs: tuple[str, ...] = ()
    force: bool = False
    lease: bool = False
    """Only over what was seen there last."""
    tags: bool = False
    every_branch: bool = False
    delete: bool = False
    upstream: bool = False
    dry_run: bool = False


def push_words(words: tuple[str, ...]) -> PushWords:
    """Read the words of a push.

    Raises:
        CannotRunOutside: an option is not known here.
    """
    folder, at = ".", 1
    while words[at] != "push":
        if words[at] != "-C" or at + 2 >= len(words):
            raise _unknown(words[at])
        folder, at = f"{folder}/{words[at + 1]}", at + 2
    found: dict[str, bool] = {}
    operands: list[str] = []
    for word in words[at + 1 :]:
        if not word.startswith("-"):
            operands.append(word)
        elif word in _FORCE:
            found["force"] = True
        elif word == _LEASE:
            found["lease"] = True
        elif word == "--tags":
            found["tags"] = True
        elif word in {"--all", "--branches"}:
            found["every_branch"] = True
        elif word in _DELETE:
            found["delete"] = True
        elif word in _UPSTREAM:
            found["upstream"] = True
        elif word in _DRY_RUN:
            found["dry_run"] = True
        elif word not in _SILENT:
            raise _unknown(word)
    if "tag" in operands[1:]:
        at = operands.index("tag", 1)
        operands[at : at + 2] = [f"refs/tags/{name}" for name in operands[at + 1 : at + 2]]
    return PushWords(folder=folder, remote=(operands or [""])[0], refspecs=tuple(operands[1:]), **found)


def _unknown(word: str) -> CannotRunOutside:
    return CannotRunOutside(
        f"`git push` runs outside the box, and {word!r} is not known there. Leave it out, or name the command in your "
        "result, for a person to run."
    )
