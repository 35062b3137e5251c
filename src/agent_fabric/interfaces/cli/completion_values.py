"""Shell completion of values, such as the id of a run, and of commands: answered before any command is imported."""

import sys
from collections.abc import Iterable, Mapping, Sequence

from agent_fabric.bootstrap.completion_values import Offer, offers, works_elsewhere
from agent_fabric.interfaces.cli.main import COMMANDS

NOT_A_VALUE = -1
"""What is typed is something else, such as a subcommand or an option."""
NO_FILES = 3
"""The exit code with which bash is told that no file name fits either."""
_MAY_BE_FILES = frozenset({"workflows"})
ARGUMENTS = {
    **dict.fromkeys(("resume", "cancel", "diff", "undo", "files", "verify", "logs show", "logs export"), "runs"),
    **dict.fromkeys(("workflow resume", "workflow cancel", "workflow signal", "workflow lineage", "eval add"), "runs"),
    **dict.fromkeys(("eval show", "eval resume", "eval cancel"), "evals"),
    **dict.fromkeys(("approvals show", "approvals approve", "approvals deny", "approvals done"), "approvals"),
    **dict.fromkeys(("workflow show", "workflow graph", "workflow run"), "workflows"),
    **dict.fromkeys(("agents show", "agents run"), "agents"),
    **dict.fromkeys(("models probe", "models pull"), "models"),
    **dict.fromkeys(("users set", "users password", "users remove", "token issue"), "users"),
    "keys revoke": "keys",
}
"""What the first argument of a command is."""
OPTIONS = {"--run": "runs", "--pack": "specialists", "--model-key": "models", "--key": "models"}
"""What an option takes."""
VALUED = frozenset(OPTIONS).union(
    ("--workspace", "--server", "--input", "-i", "--inputs", "--visibility", "--reason", "--args", "--hash"),
    ("--set", "--sign", "--node", "--data", "--from", "--format", "--output", "-o", "--kinds", "--model"),
    ("--max-steps", "--priority", "--pool", "--task-force-mode", "--kind", "--limit", "--role", "--scope"),
    ("--lifetime", "--check", "--to", "--id", "--only", "--compare", "--report", "--min-right"),
)
"""Options of these commands after which a value comes."""
_GROUPS = frozenset(command.split()[0] for command in ARGUMENTS if " " in command) | {"audit"}
_MAX_CHARACTERS = 60


def complete_value(environ: Mapping[str, str]) -> int:
    """Print the values that fit what is typed; return the exit code (NO_FILES for bash), or NOT_A_VALUE.

    Nothing that goes wrong is told: its text would end up in the line that is being typed.
    """
    shell = environ.get("_FABRIC_COMPLETE", "").removeprefix("complete_")
    kind: str | None = ""
    try:
        words, typed = typed_words(shell, environ)
        kind = kind_of(words, typed)
        if kind is None:
            return NOT_A_VALUE
        found = _find(kind, words, typed, environ)
    except Exception:  # noqa: BLE001 - see above
        found = []
    text = format_offers(shell, found)
    if shell == "fish" and environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return 0 if text else 1  # fish asks whether there are any
    sys.stdout.write(f"{text}\n" if text else "")
    return NO_FILES if shell == "bash" and not text and kind not in _MAY_BE_FILES else 0


def typed_words(shell: str, environ: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the words between `fabric` and the cursor, and the one at the cursor."""
    if shell == "bash":
        words, at = _split(environ.get("COMP_WORDS", "")), int(environ.get("COMP_CWORD", "0"))
        before, typed = words[1:at], words[at] if at < len(words) else ""
        # Bash takes `--pack=x` for three words.
        return [word for word in before if word != "="], "" if typed == "=" else typed
    line = environ.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)[1:]
    return (words[:-1], words[-1]) if words and not line.endswith(" ") else (words, "")


def kind_of(words: Sequence[str], typed: str) -> str | None:
    """Return which kind of value is typed after these words; None: something else."""
    path, last, arguments = _read(words)
    if last is not None:
        return OPTIONS.get(last)
    if not typed.startswith("-") and not any(word in COMMANDS for word in words):
        return "commands" if all(word.startswith("-") for word in words[::2]) else None
    if typed.startswith("-") or not path or arguments:
        return None
    return "runs" if path == "run" and "--continue" in words else ARGUMENTS.get(path)


def format_offers(shell: str, found: Iterable[Offer]) -> str:
    """Return values as the script of a shell wants them.

    The script of zsh evaluates the answer, and that of bash expands it. A name that could mean something there is left
    out; of descriptions only letters, digits and harmless signs are kept.
    """
    safe = [(value, _plain(text)) for value, text in found if _is_safe(value)]
    if shell == "zsh":
        items = "\n".join(f'"{value}":"{text}"' if text else f'"{value}"' for value, text in safe)
        return f"_arguments '*: :(({items}))'" if items else ""
    if shell == "fish":
        return "\n".join(f"{value}\t{text}" if text else value for value, text in safe)
    if shell in ("powershell", "pwsh"):
        return "\n".join(f"{value}:::{text or ' '}" for value, text in safe)
    return "\n".join(value for value, _ in safe)


def _find(kind: str, words: Sequence[str], typed: str, environ: Mapping[str, str]) -> list[Offer]:
    if kind == "commands":
        return [(name, text) for name, text in COMMANDS.items() if name.startswith(typed)]
    server, workspace = _given_value("--server", words), _given_value("--workspace", words)
    if works_elsewhere(server, workspace, environ):
        return []
    earlier, comma, prefix = typed.rpartition(",") if kind == "specialists" else ("", "", typed)
    return [(f"{earlier}{comma}{value}", text) for value, text in offers(kind, prefix, workspace, environ)]


def _split(line: str) -> list[str]:
    if "\n" in line:
        return line.split("\n")  # bash gives each word in a line of its own
    if not any(sign in line for sign in "\"'\\"):
        return line.split()
    import shlex  # noqa: PLC0415 - takes its time

    return shlex.split(line)


def _read(words: Sequence[str]) -> tuple[str, str | None, list[str]]:
    """Return the command, the option whose value comes next, and the arguments so far."""
    plain: list[str] = []
    last: str | None = None
    for word in words:
        if last is not None:
            last = None
        elif word in VALUED:
            last = word
        elif not word.startswith("-"):
            plain.append(word)
    length = 2 if plain and plain[0] in _GROUPS else 1
    return " ".join(plain[:length]) if len(plain) >= length else "", last, plain[length:]


def _given_value(option: str, words: Sequence[str]) -> str | None:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == option:
            return following
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None


def _is_safe(value: str) -> bool:
    return value.isascii() and all(sign.isalnum() or sign in "._-," for sign in value) and value[:1] != "-"


def _plain(text: str) -> str:
    kept = "".join(sign if sign.isalnum() or sign in ".,-_/" else " " for sign in text[:_MAX_CHARACTERS])
    return " ".join(kept.split())
