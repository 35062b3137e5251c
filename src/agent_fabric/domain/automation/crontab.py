"""Reads crontabs: what cron would start, when, and what of it cannot be taken over."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple

from agent_fabric.domain.automation.timing import SHORTCUTS, plain_expression
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.workflows.checks.triggers import cron_problem

MAX_CHARACTERS: Final = 200_000
DEFAULT_SHELL: Final = "/bin/sh"
_SETTING: Final = re.compile(r"""\s*(?P<name>[A-Za-z_]\w*|"[^"]*"|'[^']*')\s*=\s*(?P<value>.*?)\s*""", re.ASCII)
_ZONES: Final = frozenset({"CRON_TZ", "TZ"})
_UNUSED: Final = frozenset(
    {"MAILTO", "MAILFROM", "RANDOM_DELAY", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "LOGNAME", "HOME"}
)
"""What only cron itself reads, and `HOME`: commands work in the project, and their box has a home of its own."""
_FABRIC: Final = re.compile(r"(?:cd\s+\S+\s*&&\s*)?(?:\S*/)?fabric\s+(?P<rest>.+)", re.DOTALL)
_BEFORE: Final = re.compile(
    r"(?:cd\s+\S+\s*(?:&&|;)\s*|[A-Za-z_]\w*=\S*\s+|(?:nice|ionice|nohup|exec|sudo|env|time)\s+)*"
)
_REDIRECTED: Final = re.compile(r"(?:\d*|&)>.*", re.DOTALL)
_OPERATORS: Final = frozenset("|&;<()")
_FIELDS: Final = 5
_MAX_NAME: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CrontabJob:
    """A line of a crontab that starts something at set times."""

    line: int
    name: str
    """Made of its command; different for every line."""
    cron_expression: str = ""
    every: str = ""
    """Instead: an interval, as of `@every 5m`."""
    timezone: str = ""
    """As of `CRON_TZ`; empty: that of the machine."""
    command: str
    """As the shell gets it."""
    stdin: str = ""
    """What stands after an unescaped `%`."""
    shell: str = DEFAULT_SHELL
    env: Mapping[str, str] = field(default_factory=dict)


class CrontabProblem(NamedTuple):
    """A line that is not taken over."""

    line: int
    text: str
    reason: str


class Crontab(NamedTuple):
    """What a crontab says."""

    jobs: Sequence[CrontabJob]
    problems: Sequence[CrontabProblem]


class _Unusable(ValueError):
    """A line that is not taken over, and why."""


@dataclass(slots=True)
class _Reader:
    system: bool
    jobs: list[CrontabJob] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    zone: str = ""
    names: set[str] = field(default_factory=set)

    def take(self, number: int, text: str) -> None:
        """Take one line in.

        Raises:
            _Unusable: it cannot be taken over.
        """
        if text.startswith("-"):
            text = text[1:].lstrip()  # cronie: it is not to be logged
        if not text.startswith(("@", "*")) and not text[:1].isdigit() and (found := _SETTING.fullmatch(text)):
            self._set(found["name"].strip("\"'"), _unquote(found["value"]))
            return
        rule, rest = _rule_of(text)
        if self.system:
            user, _, rest = rest.partition(" ") if " " in rest else (rest, "", "")
            if not rest.strip():
                raise _Unusable(f"it has no command after the user {user!r}")
        command, stdin = _command_of(rest)
        if not command:
            raise _Unusable("it has no command")
        shell = self.env.get("SHELL", DEFAULT_SHELL)
        env = {name: value for name, value in self.env.items() if name != "SHELL"}
        self.jobs.append(
            CrontabJob(
                line=number,
                name=self._name_for(command),
                **rule,
                timezone=self.zone,
                command=command,
                stdin=stdin,
                shell=shell,
                env=env,
            )
        )

    def _set(self, name: str, value: str) -> None:
        if name in _ZONES:
            self.zone = value.removeprefix(":")
        elif name not in _UNUSED:
            self.env[name] = value

    def _name_for(self, command: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", _stem(command)).strip("-_.")[:_MAX_NAME].strip("-_.") or "job"
        name, nth = plain, 2
        while name.lower() in self.names:
            name, nth = f"{plain}-{nth}", nth + 1
        self.names.add(name.lower())
        return name


def _stem(command: str) -> str:
    """Return what a job is called after: the workflow, the first words of the task, or the program."""
    try:
        wish = fabric_wish(command)
    except ValueError:
        wish = None
    if wish is not None:
        return str(wish.get("target") or " ".join(wish["task_instruction"].lower().split()[:4]))
    rest = command[len(_BEFORE.match(command)[0]) :]  # type: ignore[index] # it fits the empty text
    program = rest.split(None, 1)[0].rpartition("/")[2] if rest.strip() else ""
    return re.sub(r"\.(?:sh|py|pl|rb|php|js|bash)$", "", program)


def read_crontab(text: str, *, system: bool = False) -> Crontab:
    """Return the jobs of a crontab; `system`: its lines name a user, as `/etc/crontab` does."""
    reader, problems = _Reader(system), list[CrontabProblem]()
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = raw.strip().replace("\0", "")
        if not line or line.startswith("#"):
            continue
        try:
            reader.take(number, line)
        except _Unusable as problem:
            problems.append(CrontabProblem(number, line[:200], str(problem)))
    return Crontab(reader.jobs, problems)


def _rule_of(text: str) -> tuple[dict[str, str], str]:
    """Return the rule at the beginning of a line, and what follows it."""
    if text.startswith("@"):
        word, _, rest = text.partition(" ") if " " in text else text.partition("\t")
        lowered = word.lower()
        if lowered == "@every":
            every, _, rest = rest.strip().partition(" ")
            return {"every": every}, rest.strip()
        if lowered == "@reboot":
            raise _Unusable("it starts with the machine, at no set time: leave it to the init system")
        if lowered not in SHORTCUTS:
            raise _Unusable(f"{word!r} is not one of {', '.join(sorted(SHORTCUTS))}")
        return {"cron_expression": lowered}, rest.strip()
    fields = text.split(None, _FIELDS)
    if len(fields) <= _FIELDS:
        raise _Unusable("it is neither a setting nor five fields and a command")
    expression = plain_expression(" ".join(fields[:_FIELDS]).lower())
    if "~" in expression:
        raise _Unusable("a random time (~) is not taken over: choose one, and spread it with jitter_s")
    if problem := cron_problem(expression):
        raise _Unusable(problem)
    return {"cron_expression": expression}, fields[_FIELDS]


def _command_of(text: str) -> tuple[str, str]:
    r"""Return the command and its standard input: cron makes a line end of each `%` that has no `\` before it."""
    parts = [part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", text)]
    return parts[0].strip(), "\n".join(parts[1:])


def _unquote(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def script_of(job: CrontabJob) -> str:
    """Return what the job's shell is given."""
    if not job.stdin:
        return job.command
    return f"printf '%s\\n' {shlex.quote(job.stdin)} | {{ {job.command}\n}}"


def fabric_wish(command: str) -> Mapping[str, Any] | None:
    """Return what a command starts that calls `fabric` itself; None: it is another command.

    Raises:
        ValueError: it calls `fabric` in a way that a schedule does not.
    """
    found = _FABRIC.fullmatch(command)
    if found is None:
        return None
    words = _plain_words(found["rest"])
    if words[:2] == ["schedules", "tick"]:
        raise ValueError("`fabric serve` fires schedules by itself")
    if words[:2] == ["workflow", "run"]:
        wish, names = _options(words[2:], {"-i": "inputs", "--input": "inputs"})
        if len(names) == 1:
            return {"target_kind": "workflow", "target": names[0], **wish}
    if words[:1] == ["run"]:
        wish, names = _options(words[1:], {"--pack": "agent_id", "--model-key": "required_model"})
        if len(names) == 1:
            return {"task_instruction": names[0], **wish}
    raise ValueError("a schedule starts `fabric run PROMPT` and `fabric workflow run NAME -i KEY=VALUE`, no more")


def _plain_words(text: str) -> list[str]:
    """Return the words of a command without its redirections.

    Raises:
        ValueError: it is more than one command.
    """
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    for word in lexer:
        if _REDIRECTED.fullmatch(word):
            break
        if set(word) <= _OPERATORS:
            raise ValueError("it is more than one command")
        words.append(word)
    return words


def _options(words: Sequence[str], known: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    wish: dict[str, Any] = {}
    rest: list[str] = []
    following = iter(words)
    for word in following:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name not in known:
            if word.startswith("-"):
                raise ValueError(f"a schedule has no {word}")
            rest.append(word)
            continue
        value = value if equals else next(following, "")
        if known[name] == "inputs":
            key, _, given = value.partition("=")
            wish.setdefault("inputs", {})[key] = given
        else:
            wish[known[name]] = value
    return wish, rest
