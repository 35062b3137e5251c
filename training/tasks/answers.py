"""Helpers of templates: answers in the language of the prompt, patterns that hold them, names with spaces."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from training.tasks import pools
from training.tasks.draw import Draw
from training.tasks.task import Task, finish

LOWER: Final = tuple(each for each in pools.NOUNS if each.islower() and len(each) > 3)
"""Nouns that are no beginning of a sentence; none so short that it stands in many others."""
_NOT: Final = (
    r"(?:\b(?:no|not|none|nobody|nothing|neither|never|without|missing|already|kein\w*|nicht\w*|niemand\w*|ohne|fehlt"
    r"|schon|bereits|aucune?|pas|personne|rien|déjà|ning[uú]n\w*|nadie|nada|sin|ya|falta|não|nenhum\w*|ninguém|sem|já)\b"
    r"|n't\b)"
)
NOT_THERE: Final = _NOT
"""Says that something is not there, or is not needed."""
_NUMBERS: Final = (
    "zero|none|nothing|no|null|keine?|aucune?|cero|ning[uú]n\\w*|nenhum\\w*",
    "one|a single|eine?[rns]?|une?|una?|um|uma|solo|only",
    "two|both|zwei|deux|dos|dois|duas",
    "three|drei|trois|tres|três",
    "four|vier|quatre|cuatro|quatro",
    "five|fünf|cinq|cinco",
    "six|sechs|seis",
    "seven|sieben|sept|siete|sete",
    "eight|acht|huit|ocho|oito",
    "nine|neun|neuf|nueve|nove",
    "ten|zehn|dix|diez|dez",
    "eleven|elf|onze|once",
    "twelve|zwölf|douze|doce|doze",
)


def answered(task: Task, told: Mapping[str, str]) -> Task:
    """Return the task with its last step: what is said in the end, in the language of the prompt or else in English."""
    return replace(task, steps=[*task.steps, finish(told.get(task.language, told["en"]))])


def number_said(number: int) -> str:
    """Return a pattern for an answer that has this number, as digits or as a word."""
    digits = rf"(?<![\w.,−-]){abs(number)}(?!\d|[.,]\d)"
    if number < 0:
        return rf"(?<!\w)(?:[-−–] ?|minus |moins |menos ){abs(number)}(?!\d|[.,]\d)"
    return digits if number >= len(_NUMBERS) else rf"{digits}|\b(?:{_NUMBERS[number]})\b"


def said(text: str) -> str:
    """Return a pattern for an answer that has this name, as a word of its own."""
    return rf"(?<!\w){re.escape(text)}(?!\w)"


def unsaid(texts: Iterable[str]) -> str:
    """Return a pattern for an answer that has none of these names."""
    names = "|".join(map(re.escape, texts))
    return rf"\A(?![\s\S]*(?<!\w)(?:{names})(?!\w))" if names else r"\A"


def affirmed(text: str) -> str:
    """Return a pattern for an answer that has this name and does not say that something is not there."""
    return rf"\A(?![\s\S]*{_NOT})[\s\S]*{re.escape(text)}"


def by_case(missing: Mapping[str, str], found: Mapping[str, str], there: object) -> Mapping[str, str]:
    """Return what is told when something is there, or when it is not."""
    return found if there else missing


def kept(*texts: str) -> dict[str, Any]:
    """Return the words of texts that the prompt quotes as values for `Draw.task`: no typing error is made in them."""
    return {f"kept_{at}": word for at, word in enumerate(" ".join(texts).split())}


def spaced(draw: Draw, ending: str = "txt", share: float = 0.4) -> str:
    """Return a name for a file that has a space in it, sometimes."""
    if draw.random() >= share:
        return draw.file(ending)
    return f"{draw.word(pools.QUALIFIERS)} {draw.word(pools.STEMS)}.{ending}"


def shown(name: str) -> str:
    """Return a name as it is typed in a prompt: in quotes when it has a space."""
    return f'"{name}"' if " " in name else name


def filled(draw: Draw, names: Iterable[str]) -> dict[str, str]:
    """Return files with a sentence each."""
    return {name: f"{draw.sentence()}\n" for name in names}


def moved(files: Mapping[str, str], names: Iterable[str], folder: str) -> dict[str, str]:
    """Return these of the files with the names they have in a folder."""
    return {f"{folder}/{name.rpartition('/')[2]}": files[name] for name in names}


def text_of(lines: Iterable[str]) -> str:
    """Return lines as the text of a file."""
    return "".join(f"{line}\n" for line in lines)
