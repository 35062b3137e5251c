"""What the templates about programs share: names for programs, sentences for the end, text made of lines."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from training.tasks import pools
from training.tasks.draw import Draw
from training.tasks.task import Step, Task, finish, shell

PROGRAMS: Final = tuple(
    """
    abacus almanac teller helper walker finder picker builder reader printer scanner digest outputs figures values
    tallies series sequence ladderway patterns outlines tortoise wheel clockwork pendulum timer stopwatch dayplan
    season weekend kitchen bakery market grocery checkout register turnover ledgers banknote coinage wallet savings
    budgeting spending payroll wages hourly logbook notebook scribbler letterbox mailbag postman courier shipment
    warehouse stockroom inventories toolbox workbench garage engine motor turbine gearbox dashboard gauge meter scale
    balance thermometer barometer rainfall snowfall sunshine climate forecasts tides moonlight comet planetarium rover
    lander orbiter signalbox railway footbridge carriage timetable itinerary roadmap hikers trailmap waypoint lighthouse
    harbour fishery orchard vineyard greenhouse seedling compost beehive henhouse stable paddock shepherd miller potter
    weaver tailor cobbler smithy carver mason glazier plumber gardener librarian tutor referee umpire scoreboard
    leaderboard tournament raffle lottery puzzlebox crossword rhymes verses chorus melody rhythm metronome tuner
    """.split()  # noqa: SIM905 - a page of words reads better than a page of quotes
)
TRIED_OUT: Final = {
    "en": "{file} is written, and I tried it.",
    "de": "{file} ist geschrieben, und ich habe es ausprobiert.",
    "fr": "{file} est écrit, et je l'ai essayé.",
    "es": "He escrito {file} y lo he probado.",
    "pt": "Escrevi {file} e testei.",
}
PRINTS_LINE: Final = {
    "en": "{file} is written; I ran it and it prints: {first}",
    "de": "{file} ist geschrieben; ich habe es ausgeführt, es gibt aus: {first}",
    "fr": "{file} est écrit ; je l'ai lancé, il affiche : {first}",
    "es": "He escrito {file} y lo he ejecutado; muestra: {first}",
    "pt": "Escrevi {file} e executei; mostra: {first}",
}
PRINTS_LINES: Final = {
    "en": "{file} is written; I ran it and it prints {count} lines, from {first} to {last}",
    "de": "{file} ist geschrieben; ich habe es ausgeführt, es gibt {count} Zeilen aus, von {first} bis {last}",
    "fr": "{file} est écrit ; je l'ai lancé, il affiche {count} lignes, de {first} à {last}",
    "es": "He escrito {file} y lo he ejecutado; muestra {count} líneas, de {first} a {last}",
    "pt": "Escrevi {file} e executei; mostra {count} linhas, de {first} a {last}",
}
TRIED: Final = {
    "en": "{file} has the function {function} now; I tried it with an example.",
    "de": "{file} hat jetzt die Funktion {function}; ich habe sie mit einem Beispiel ausprobiert.",
    "fr": "{file} contient maintenant la fonction {function} ; je l'ai essayée avec un exemple.",
    "es": "{file} tiene ahora la función {function}; la he probado con un ejemplo.",
    "pt": "{file} tem agora a função {function}; testei com um exemplo.",
}
PASSES: Final = {
    "en": "I mended {file}; {test} passes now.",
    "de": "{file} ist korrigiert; {test} läuft jetzt durch.",
    "fr": "J'ai corrigé {file} ; {test} passe maintenant.",
    "es": "He corregido {file}; {test} pasa ahora.",
    "pt": "Corrigi {file}; {test} passa agora.",
}
MENDED: Final = {
    "en": "I mended {file} and ran it again: it works now.",
    "de": "{file} ist korrigiert; ich habe es noch einmal ausgeführt, es funktioniert jetzt.",
    "fr": "J'ai corrigé {file} et je l'ai relancé : il fonctionne maintenant.",
    "es": "He corregido {file} y lo he ejecutado otra vez: ya funciona.",
    "pt": "Corrigi {file} e executei de novo: agora funciona.",
}
CHANGED: Final = {
    "en": "{file} is changed as asked; the rest is as it was.",
    "de": "{file} ist wie gewünscht geändert; der Rest ist, wie er war.",
    "fr": "{file} est modifié comme demandé ; le reste n'a pas changé.",
    "es": "{file} está cambiado como se pedía; lo demás sigue igual.",
    "pt": "{file} foi alterado como pedido; o resto continua igual.",
}
WRITTEN: Final = {
    "en": "{file} is written.",
    "de": "{file} ist geschrieben.",
    "fr": "{file} est écrit.",
    "es": "{file} está escrito.",
    "pt": "{file} foi escrito.",
}


def done(task: Task, sentence: Mapping[str, str], **values: object) -> Task:
    """End a task with a sentence in the language of its prompt."""
    said = sentence.get(task.language, sentence["en"]).format(**values)
    return replace(task, steps=[*task.steps, finish(said)])


def ran(task: Task, file: str, printed: str) -> Task:
    """End a task with what its program was seen to print."""
    lines = printed.rstrip("\n").split("\n")
    sentence = PRINTS_LINE if len(lines) == 1 else PRINTS_LINES
    if not printed.strip():
        sentence = TRIED_OUT
    return done(task, sentence, file=file, count=len(lines), first=lines[0].strip(), last=lines[-1].strip())


def text(*lines: str) -> str:
    """Return lines as the text of a file."""
    return "\n".join(lines) + "\n"


def exact(*phrases: str) -> dict[str, Any]:
    """Return the words of phrases as values of a task, so that no typing error is made in them."""
    return {f"kept_{at}": word for at, word in enumerate(" ".join(phrases).split())}


def module(draw: Draw, ending: str = "py") -> str:
    """Return a name for a program that can be imported."""
    stem = draw.word(PROGRAMS)
    if draw.random() < 0.25:
        stem = f"{stem}_{draw.word(pools.QUALIFIERS)}"
    return f"{stem}.{ending}"


def program(draw: Draw, ending: str = "py") -> str:
    """Return a name for a program, now and then in a folder."""
    name = module(draw, ending)
    return f"{draw.folder()}/{name}" if draw.random() < 0.1 else name


def stem_of(name: str) -> str:
    """Return the name of a file without folder and ending."""
    return name.rsplit("/", 1)[-1].rsplit(".", 1)[0]


def camel(name: str) -> str:
    """Return a name as that of a class."""
    return "".join(part.capitalize() for part in name.split("_"))


def read_first(files: Mapping[str, str], *names: str) -> list[Step]:
    """Return the step that reads files of which the loop does not show all by itself."""
    long = [name for name in names if len(files[name].encode()) > 240]
    return [shell(f"cat {' '.join(long)}")] if long else []
