"""`git push`, done from a repository of our own that only borrows the objects of the workspace's.

So nothing that the workspace's repository says is obeyed: no hook, no setting, no alias. Of its settings only the
address of the remote is read, which a person is shown before they agree. The commits are named by their hashes: they
cannot become others meanwhile.
"""

import asyncio
import hashlib
import os
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.outside_plan import CannotRunOutside, NothingToPush, Outside
from agent_fabric.infrastructure.policy.outside.repository import Repository, account

_SILENT = frozenset({"-v", "--verbose", "-q", "--quiet", "--progress", "--no-progress", "--no-verify", "--porcelain"})
_KNOWN = {
    **dict.fromkeys(("-f", "--force"), "force"),
    "--force-with-lease": "lease",
    "--tags": "tags",
    **dict.fromkeys(("--all", "--branches"), "every_branch"),
    **dict.fromkeys(("-d", "--delete"), "delete"),
    **dict.fromkeys(("-u", "--set-upstream"), "upstream"),
    **dict.fromkeys(("-n", "--dry-run"), "dry_run"),
}
"""Options, and what they set of `PushWords`."""


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
        elif word in _KNOWN:
            found[_KNOWN[word]] = True
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


MAX_REFS = 20
"""Branches and tags in one push; each is shown."""
MAX_COMMITS = 20
"""How many commits are shown; more are counted."""
_MAX_SUBJECT_CHARS = 150
_GIT_TIMEOUT_S = 60.0
_TRANSPORT = re.compile(r"(?:https?|ssh|git|git\+ssh|ssh\+git)://", re.IGNORECASE)
_SCP_LIKE = re.compile(r"[^/:]+:(?!:)")
_DESTINATION = re.compile(r"[A-Za-z0-9._/@+=-]+")
_REMOTE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REMOTE = "approved-address"
"""The name of the remote in the repository that pushes: git makes the same address of it that was shown."""


@dataclass(frozen=True, slots=True)
class _Update:
    commit: str
    """Empty: it is deleted."""
    target: str
    forced: bool
    seen: str
    """What was there when the repository last looked; empty: not known."""

    @property
    def refspec(self) -> str:
        return f"{'+' * (self.forced and not self.lease)}{self.commit}:{self.target}"

    @property
    def lease(self) -> str:
        """What must be over there, as the card says; without it the repository could claim what is there already."""
        return f"--force-with-lease={self.target}:{self.seen}" if self.commit and self.seen else ""


@dataclass(frozen=True, slots=True)
class Push:
    """Works out one push, in a folder of its own."""

    git: str
    environment: Mapping[str, str]
    repository: Repository
    wanted: PushWords
    workspace: str
    scratch: Path
    """An empty folder, for the repository that pushes."""

    async def plan(self) -> tuple[Outside, Mapping[str, bytes], str] | None:
        """Return what exactly would be pushed where, the files that say so afterwards, and how to set an upstream.

        The files are as git itself notes it. The last is empty where there is an upstream.
        None: it stays in the workspace.

        Raises:
            NothingToPush: the other side has it all, as far as the repository knows.
            CannotRunOutside: it cannot be worked out.
        """
        settings = await self._settings()
        remote = self.wanted.remote or self._usual_remote(settings)
        address = self._address(remote, settings)
        if address is None:
            return None
        await self._prepare(address)
        address = (await self._git("remote", "get-url", "--push", _REMOTE)).strip()
        _require_transport(address)
        updates = tuple(self._updates(remote))
        if not updates:
            raise CannotRunOutside("There is nothing to push: no branch is checked out, and none is named.")
        if len(updates) > MAX_REFS:
            raise CannotRunOutside(f"At most {MAX_REFS} branches and tags are pushed at once. Name fewer.")
        if all(each.commit and each.commit == each.seen for each in updates):
            raise NothingToPush(self._nothing_new(remote, updates, settings))
        carries = [line for update in updates for line in await self._describe(update)]
        noted = dict(entry for update in updates for entry in self._note(remote, update))
        leases = [each.lease for each in updates if each.lease]
        words = (
            *(self.git, "--git-dir=repository", "push", "--no-verify", "--porcelain"),
            *(["--dry-run"] if self.wanted.dry_run else []),
            *leases,
            *("--", _REMOTE, *(each.refspec for each in updates)),
        )
        outside = Outside(words=words, account=account(), goes_to=address, carries=tuple(carries))
        if self.wanted.dry_run:
            return outside, {}, ""
        return outside, noted, self._untracked_name(remote, updates, settings)

    def _nothing_new(self, remote: str, updates: Sequence[_Update], settings: Mapping[str, list[str]]) -> str:
        names = ", ".join(f"{each.target.removeprefix('refs/heads/')} ({each.commit[:10]})" for each in updates)
        track = self._untracked_name(remote, updates, settings)
        return (
            f"Nothing to push: {remote} already has {names}, as far as this repository knows. Nothing was run."
            + f" No upstream is set. Set it: {track}" * bool(track)
        )

    def _untracked_name(self, remote: str, updates: Sequence[_Update], settings: Mapping[str, list[str]]) -> str:
        """Return the command that sets the upstream of the pushed branch; empty: it has one, or it cannot be known."""
        names = [each.target.removeprefix("refs/heads/") for each in updates if each.commit]
        if len(names) != 1 or f"remote.{remote}.url" not in settings or f"branch.{names[0]}.merge" in settings:
            return ""
        if f"refs/heads/{names[0]}" not in self.repository.refs:
            return ""
        return shlex.join(("git", "branch", f"--set-upstream-to={remote}/{names[0]}", names[0]))

    async def _settings(self) -> dict[str, list[str]]:
        """Read the settings of the repository as data; what they include is not read."""
        copy = self.scratch / "settings"
        await asyncio.to_thread(copy.write_bytes, self.repository.config)
        text = await self._run("config", "--file", str(copy), "--no-includes", "--null", "--list")
        settings: dict[str, list[str]] = {}
        for entry in filter(None, text.split("\0")):
            name, _, value = entry.partition("\n")
            settings.setdefault(name, []).append(value)
        return settings

    def _usual_remote(self, settings: Mapping[str, list[str]]) -> str:
        branch = self.repository.branch
        names = (f"branch.{branch}.pushremote", "remote.pushdefault", f"branch.{branch}.remote")
        return next((settings[name][-1] for name in names if name in settings), "origin")

    def _address(self, remote: str, settings: Mapping[str, list[str]]) -> str | None:
        addresses = settings.get(f"remote.{remote}.pushurl") or settings.get(f"remote.{remote}.url")
        if addresses is None:
            if "/" not in remote and ":" not in remote:
                raise CannotRunOutside(f"The repository has no remote {remote!r}. Look with `git remote -v`.")
            addresses = [remote]
        if len(addresses) != 1:
            raise CannotRunOutside(f"The remote {remote!r} has several addresses. Name the one to push to.")
        address = addresses[0]
        if _TRANSPORT.match(address) or (_SCP_LIKE.match(address) and not address.startswith(("/", "."))):
            return address
        if "::" in address or address.startswith("-"):
            raise CannotRunOutside(f"The address {address!r} would start a program.")
        root = Path(os.path.realpath(self.workspace))
        place = Path(os.path.realpath(root / self.wanted.folder / address.removeprefix("file://")))
        if place.is_relative_to(root):
            return None
        if ".fabric" in place.parts:  # where it lies, other runs may have made its hooks
            raise CannotRunOutside(f"{address!r} lies in a folder of fabric.")
        return str(place)

    async def _prepare(self, address: str) -> None:
        """Make the repository that pushes."""
        await self._run("init", "--quiet", "--bare", "--template=", "repository")
        made = self.scratch / "repository"
        info = made / "objects" / "info"

        def write() -> None:
            info.mkdir(exist_ok=True)
            (info / "alternates").write_bytes(os.fsencode(self.repository.objects) + b"\n")
            if self.repository.shallow:
                (made / "shallow").write_bytes(self.repository.shallow)

        await asyncio.to_thread(write)
        await self._git("config", f"remote.{_REMOTE}.url", address)

    def _updates(self, remote: str) -> Iterator[_Update]:
        """Yield what is to become of which branches and tags over there."""
        repository, wanted = self.repository, self.wanted
        refspecs = list(wanted.refspecs)
        if wanted.tags:
            refspecs += [name for name in repository.refs if name.startswith("refs/tags/")]
        if wanted.every_branch:
            refspecs += [name for name in repository.refs if name.startswith("refs/heads/")]
        if not refspecs and repository.branch and not wanted.tags:
            refspecs = ["HEAD"]
        for refspec in refspecs:
            source, _, target = refspec.removeprefix("+").partition(":")
            if wanted.delete:
                source, target = "", source
            if not source and not target:
                raise CannotRunOutside(f"What {refspec!r} means depends on the other side. Name the branches.")
            full, commit = repository.commit_of(source) if source else ("", "")
            target = _full_name(target or full or source, full)
            tracking = target.replace("refs/heads/", f"refs/remotes/{remote}/", 1)
            seen = repository.refs.get(tracking, "") if tracking != target else ""
            if wanted.lease and not seen:
                raise CannotRunOutside(f"What {target} is over there is not known here. Fetch it first.")
            yield _Update(commit, target, wanted.lease or wanted.force or refspec.startswith("+"), seen)

    async def _describe(self, update: _Update) -> list[str]:
        """Say what an update does, a line for each commit."""
        how = "forced, " if update.forced else ""
        if not update.commit:
            return [f"deletes {update.target}"]
        commits = (update.commit, "--not", update.seen) if update.seen else (update.commit,)
        number, gaps = await self._history(commits)
        if not update.seen:
            what = f"{how}with up to {_commits(number)}; what is there now is not known here"
        else:
            if not update.forced and await self._git("rev-list", "--max-count=1", update.seen, "--not", update.commit):
                raise CannotRunOutside(
                    f"{update.target} has other commits over there ({update.seen[:10]}). Merge or rebase first."
                )
            what = f"{how}was {update.seen[:10]}, {_commits(number)} more"
        log = await self._git("log", "-z", f"--max-count={MAX_COMMITS}", "--format=%h %an: %s", *commits)
        lines = [f"commit {_shorten(line)}" for line in log.split("\0") if line]
        rest = number - len(lines)
        more = [f"and {_commits(rest)} before them"] if rest > 0 else []
        return [f"{update.target} becomes {update.commit[:10]} ({what})", *lines, *more, *gaps]

    async def _history(self, commits: tuple[str, ...]) -> tuple[int, list[str]]:
        """Count commits whose text is what their hashes say, and tell which of them hide what comes before them.

        A repository can hold another text under a hash, and can end the history anywhere (`shallow`).

        Raises:
            CannotRunOutside: a commit is not what its hash says.
        """
        listed = (await self._git("rev-list", "--boundary", *commits)).split()
        known = {name.removeprefix("-") for name in listed}
        names = [name for name in listed if not name.startswith("-")]
        held = await self._output("--git-dir=repository", "cat-file", "--batch", given="\n".join(names).encode())
        gaps: list[str] = []
        at = 0
        for name in names:
            end = held.index(b"\n", at)
            kind, size = held[at:end].split()[1:]
            data = held[end + 1 : end + 1 + int(size)]
            at = end + 2 + int(size)
            if hashlib.sha1(kind + b" " + size + b"\0" + data).hexdigest() != name:  # noqa: S324 - as git names it
                raise CannotRunOutside(f"The repository is damaged: {name} is another commit than its name says.")
            header = data.partition(b"\n\n")[0].decode(errors="replace").split("\n")
            parents = [line.removeprefix("parent ") for line in header if line.startswith("parent ")]
            if missing := [parent for parent in parents if parent not in known]:
                gaps.append(f"and what {name[:10]} builds on ({', '.join(missing)}), which is not here")
        if len(gaps) > MAX_COMMITS:
            raise CannotRunOutside("Too much of the history is not here. Fetch it first.")
        return len(names), gaps

    def _note(self, remote: str, update: _Update) -> Iterator[tuple[str, bytes]]:
        name = update.target.replace("refs/heads/", f"refs/remotes/{remote}/", 1)
        if update.commit and name != update.target and _REMOTE_NAME.fullmatch(remote):
            yield posixpath.normpath(f"{self.wanted.folder}/.git/{name}"), f"{update.commit}\n".encode()

    async def _git(self, *words: str) -> str:
        """Run git on the repository that pushes, never on the workspace's."""
        return await self._run("--git-dir=repository", *words)

    async def _run(self, *words: str) -> str:
        return (await self._output(*words)).decode(errors="replace")

    async def _output(self, *words: str, given: bytes = b"") -> bytes:
        process = await asyncio.create_subprocess_exec(
            *(self.git, *words),
            cwd=self.scratch,
            env=dict(self.environment),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_GIT_TIMEOUT_S):
                out, err = await process.communicate(given)
        except TimeoutError:
            raise CannotRunOutside(f"`git {' '.join(words)}` took longer than {_GIT_TIMEOUT_S:g} s.") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            said = err.decode(errors="replace").strip().splitlines()
            raise CannotRunOutside(f"What would be pushed cannot be worked out: {said[-1] if said else 'git failed'}")
        return out


def _full_name(target: str, source: str) -> str:
    """Return the full name of what is written over there."""
    if target.startswith("refs/"):
        full = target
    elif source.startswith("refs/tags/"):
        full = f"refs/tags/{target}"
    else:
        full = f"refs/heads/{target}"
    if not _DESTINATION.fullmatch(full) or ".." in full:
        raise CannotRunOutside(f"{target!r} is no name of a branch or tag.")
    return full


def _commits(number: int) -> str:
    return f"{number} commit{'s' * (number != 1)}"


def _shorten(line: str) -> str:
    return line if len(line) <= _MAX_SUBJECT_CHARS else f"{line[:_MAX_SUBJECT_CHARS]} [cut]"


def _require_transport(address: str) -> None:
    """Refuse an address that starts a program, also one that the user's own settings have made of it."""
    if "::" in address.partition("/")[0] or address.startswith("-"):
        raise CannotRunOutside(f"The address {address!r} would start a program.")
