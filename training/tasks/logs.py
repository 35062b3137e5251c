"""Tasks with logs: count by level, find the last error, the hours, the addresses, the slowest request."""

from collections import Counter
from typing import Final, NamedTuple

from training.tasks.draw import Draw, template
from training.tasks.figures import NOTHING
from training.tasks.task import Check, Task, finish, shell

_LEVELS: Final = ("INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR", "ERROR")


_PARTS: Final = ("worker", "billing", "importer", "gate", "mailer", "scanner", "backup", "pump")


_DONE: Final = ("{0} loaded", "{0} saved", "no ERROR in {0}", "{0} has {1} parts", "waiting for {0}", "{0} took {1} ms")


_WRONG: Final = (
    "{0} is missing",
    "cannot open {0}",
    "{0} failed after {1} tries",
    "bad checksum of {0}",
    "{0} is full",
)


class _Entry(NamedTuple):
    day: str
    time: str
    level: str
    part: str
    text: str

    @property
    def line(self) -> str:
        return f"{self.day} {self.time} {self.level} {self.part}: {self.text}"


def _entries(draw: Draw, low: int = 5, high: int = 14, *, days: int = 1) -> list[_Entry]:
    """Return entries in the order of time. A trap: texts name levels."""
    month, first = draw.randint(1, 12), draw.randint(1, 20)
    moments = sorted(
        (draw.randint(first, first + days - 1), draw.randint(6, 20), draw.randint(0, 59), draw.randint(0, 59))
        for _ in range(draw.randint(low, high))
    )
    year = draw.randint(2027, 2039)
    found = []
    for day, hour, minute, second in moments:
        level = draw.choice(_LEVELS)
        text = draw.choice(_WRONG if level in {"WARN", "ERROR"} else _DONE).format(
            draw.word().lower(), draw.randint(2, 90)
        )
        time = f"{hour:02}:{minute:02}:{second:02}"
        found.append(_Entry(f"{year}-{month:02}-{day:02}", time, level, draw.choice(_PARTS), text))
    return found


def _text(entries: list[_Entry]) -> str:
    return "".join(f"{each.line}\n" for each in entries)


@template
def log_levels_counted(draw: Draw) -> Task:
    """By the level at its place, not by the word somewhere in the line."""
    entries = _entries(draw)
    counted = Counter(each.level for each in entries)
    source, target = draw.file("log"), draw.file()
    form, written = draw.choice([("{0} {1}", 'k " " n[k]'), ("{0}: {1}", 'k ": " n[k]'), ("{0}={1}", 'k "=" n[k]')])
    example = form.format("NOTICE", 4)
    return draw.task(
        {
            "en": [
                "Count the entries of {source} by level. {target} gets a line like {example} for each level, "
                "sorted by name.",
                "tally the log levels in {source} -> {target}, lines such as {example}, alphabetical",
                "How many entries of each level has {source}? Make {target} with lines of the form {example}, "
                "from A to Z.",
                "I'd like an overview of the levels in {source} as {target}: sorted, one level a line, like {example}.",
            ],
            "de": ["Zähle die Einträge von {source} je Stufe: in {target} Zeilen wie {example}, alphabetisch."],
            "fr": ["Compte les entrées de {source} par niveau : dans {target}, des lignes comme {example}, triées."],
        },
        source=source,
        target=target,
        example=example,
        files={source: _text(entries)},
        steps=[
            shell(f"awk '{{n[$3]++}} END {{for (k in n) print {written}}}' {source} | LC_ALL=C sort > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the number of entries for each level."),
        ],
        check=Check(files={target: "\n".join(form.format(level, counted[level]) for level in sorted(counted))}),
    )


@template
def log_last_of_level(draw: Draw) -> Task:
    """The last one, or the first; the file may have none."""
    entries = _entries(draw, 6, 14)
    level = draw.choice(["ERROR", "ERROR", "WARN"])
    last = draw.random() < 0.7
    if draw.random() < 0.2:
        entries = [each for each in entries if each.level != level] or [entries[0]._replace(level="INFO")]
    found = [each.line for each in entries if each.level == level]
    source, target = draw.file("log"), draw.file()
    word = ("last", "letzten", "último") if last else ("first", "ersten", "primer")
    wanted = (found[-1] if last else found[0]) if found else ""
    return draw.task(
        {
            "en": [
                "Copy the {word} {level} entry of {source} to {target}. If there is none, say so and make no file.",
                "{word} {level} line of {source} into {target}; no such line -> no file, tell me",
                "What is the {word} entry with the level {level} in {source}? It goes to {target}, if there is "
                "one at all. "
                "Otherwise tell me.",
                "I need the {word} line that has the level {level} from {source} as {target}. Should there be "
                "none, just "
                "tell me.",
            ],
            "de": [
                "Schreib den {deutsch} Eintrag der Stufe {level} aus {source} in {target}; gibt es keinen, sag es nur."
            ],
            "es": ["Copia el {espanol} registro de nivel {level} de {source} a {target}; si no hay, solo dímelo."],
        },
        source=source,
        target=target,
        level=level,
        word=word[0],
        deutsch=word[1],
        espanol=word[2],
        files={source: _text(entries)},
        steps=[
            shell(f"awk '$3 == \"{level}\"' {source} | {'tail' if last else 'head'} -n 1"),
            *(
                [
                    shell(f"awk '$3 == \"{level}\"' {source} | {'tail' if last else 'head'} -n 1 > {target}"),
                    finish(f"{target} has the {word[0]} {level} entry of {source}."),
                ]
                if found
                else [finish(f"There is no {level} entry in {source}, so {target} was not made.")]
            ),
        ],
        check=Check(files={target: wanted}) if found else Check(says=(NOTHING,)),
    )


@template
def log_entries_by_hour(draw: Draw) -> Task:
    """All of them, or those of a level."""
    entries = _entries(draw, 8, 16)
    level = draw.choice(["", "", "ERROR", "INFO"])
    counted = Counter(each.time[:2] for each in entries if not level or each.level == level)
    if not counted:
        level, counted = "", Counter(each.time[:2] for each in entries)
    source, target = draw.file("log"), draw.file()
    test = f'$3 == "{level}" ' if level else ""
    kind = f"{level} entries" if level else "entries"
    return draw.task(
        {
            "en": [
                "How many {kind} per hour are in {source}? Write lines such as 23 5 (hour, count) to {target}, "
                "by hour.",
                "{kind} of {source} by hour -> {target}. lines: hour, space, count; sorted; skip hours with none",
                "Please count the {kind} of {source} for each hour that has any. {target}: two digits for the "
                "hour, a space, "
                "the count.",
                "I'd like to see in {target} how the {kind} of {source} spread over the hours, lines like 23 5, "
                "sorted.",
            ],
            "de": ["Zähle in {source} die Einträge{stufe} je Stunde, als Zeilen wie 23 5 in {target}, sortiert."],
            "pt": ["Conte as entradas{nivel} de {source} por hora, com linhas como 23 5 em {target}, em ordem."],
        },
        source=source,
        target=target,
        kind=kind,
        stufe=f" der Stufe {level}" if level else "",
        nivel=f" de nível {level}" if level else "",
        files={source: _text(entries)},
        steps=[
            shell(
                f"awk '{test}{{n[substr($2, 1, 2)]++}} END {{for (h in n) print h, n[h]}}' {source} | sort > {target}"
            ),
            shell(f"cat {target}"),
            finish(f"{target} has the number of {kind} for each hour."),
        ],
        check=Check(files={target: "\n".join(f"{hour} {counted[hour]}" for hour in sorted(counted))}),
    )


@template
def log_times_of_level(draw: Draw) -> Task:
    """Only the times, in the order of the log."""
    entries = _entries(draw, 6, 14)
    level = draw.choice([each.level for each in entries])
    source, target = draw.file("log"), draw.file()
    times = [each.time for each in entries if each.level == level]
    return draw.task(
        {
            "en": [
                "List the times of all {level} entries of {source} in {target}, only the time, one per line.",
                "when did {level} happen in {source}? times only, to {target}",
                "Please extract from {source} the time of day of each entry with the level {level} into {target}.",
                "I want {target} to hold the clock times at which {source} has {level}, without date and text.",
            ],
            "de": [
                "Schreib von allen Einträgen der Stufe {level} in {source} nur die Uhrzeit in {target}, zeilenweise."
            ],
            "fr": ["Mets dans {target} l'heure de chaque entrée {level} de {source}, une par ligne, sans la date."],
        },
        source=source,
        target=target,
        level=level,
        files={source: _text(entries)},
        steps=[
            shell(f"awk '$3 == \"{level}\" {{print $2}}' {source} > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the times of the {len(times)} {level} entries."),
        ],
        check=Check(files={target: "\n".join(times)}),
    )


@template
def log_level_taken_out(draw: Draw) -> Task:
    """Lines of other levels may have the word."""
    entries = _entries(draw, 6, 12)
    level = draw.choice([each.level for each in entries])
    entries.append(entries[-1]._replace(level="NOTICE", text=f"{level} lines are not kept"))
    source = draw.file("log")
    return draw.task(
        {
            "en": [
                "Delete the entries with the level {level} from {source}.",
                "drop all {level} entries in {source}, but not lines that just mention the word",
                "{source} is too long. Could you remove every entry whose level is {level}?",
                "I don't need the {level} level in {source}, please throw these lines away.",
            ],
            "de": ["Lösch aus {source} alle Einträge der Stufe {level}."],
            "es": ["Borra de {source} las entradas de nivel {level}."],
        },
        source=source,
        level=level,
        files={source: _text(entries)},
        steps=[
            shell(f"awk '$3 != \"{level}\"' {source} > {source}.new && mv {source}.new {source}"),
            shell(f"cat {source}"),
            finish(f"{source} has no entries of the level {level} any more."),
        ],
        check=Check(files={source: _text([each for each in entries if each.level != level])}),
    )


@template
def log_between_times(draw: Draw) -> Task:
    """From one time to another, of one day."""
    entries = _entries(draw, 8, 14)
    first, last = sorted(draw.sample(range(7, 20), 2))
    begin, end = f"{first:02}:00:00", f"{last:02}:00:00"
    found = [each for each in entries if begin <= each.time < end]
    if not found:
        begin, end, found = "05:00:00", "21:00:00", entries
    source, target = draw.file("log"), draw.file("log")
    a, b = begin[:5], end[:5]
    return draw.task(
        {
            "en": [
                "Save the entries of {source} from {a} to before {b} as {target}.",
                "{source}: entries from {a} on, earlier than {b}, into {target}",
                "What happened between {a} and {b}, the end not included? Copy those lines of {source} to {target}.",
                "Please cut out of {source} what was logged at or after {a} and before {b}; it should be in {target}.",
            ],
            "de": ["Kopiere die Einträge von {source} ab {a} und vor {b} nach {target}."],
            "fr": ["Copie dans {target} les entrées de {source} de {a} jusqu'avant {b}."],
        },
        source=source,
        target=target,
        a=a,
        b=b,
        files={source: _text(entries)},
        steps=[
            shell(f'awk \'$2 >= "{begin}" && $2 < "{end}"\' {source} > {target}'),
            shell(f"cat {target}"),
            finish(f"{target} has the {len(found)} entries from {a} to before {b}."),
        ],
        check=Check(files={target: _text(found)}),
    )


@template
def log_of_one_day(draw: Draw) -> Task:
    """A log of several days; how many entries, or which."""
    entries = _entries(draw, 8, 14, days=3)
    day = draw.choice([each.day for each in entries])
    found = [each for each in entries if each.day == day]
    source, target = draw.file("log"), draw.file("log")
    return draw.task(
        {
            "en": [
                "Copy what {source} has for {day} to {target}.",
                "all entries of {day} out of {source} -> {target}",
                "Could you make {target} with only the lines of {source} that are from {day}?",
                "Only {day} matters to me. Put its entries from {source} in {target}, the log itself stays.",
            ],
            "de": ["Kopiere alle Einträge vom {day} aus {source} nach {target}."],
            "es": ["Copia a {target} las entradas de {source} del {day}."],
        },
        source=source,
        target=target,
        day=day,
        files={source: _text(entries)},
        steps=[
            shell(f"grep '^{day} ' {source} > {target}"),
            shell(f"wc -l {target}"),
            finish(f"{target} has the {len(found)} entries of {day}."),
        ],
        check=Check(files={target: _text(found)}),
    )


@template
def logs_errors_over_files(draw: Draw) -> Task:
    """All logs of a folder; which of them has the most, or how many in all."""
    folder, target = draw.folder(), draw.file()
    names = [f"{folder}/{draw.file('log')}" for _ in range(draw.randint(2, 4))]
    texts = {name: _entries(draw, 3, 7) for name in names}
    counts = {name: sum(each.level == "ERROR" for each in texts[name]) for name in names}
    while not counts[names[0]]:
        texts[names[0]].append(texts[names[0]][-1]._replace(level="ERROR"))
        counts[names[0]] += 1
    files = {name: _text(texts[name]) for name in names}
    if draw.random() < 0.5:
        files[f"{folder}/{draw.file('txt')}"] = f"2030-01-01 10:00:00 ERROR note: {draw.sentence()}\n"
    total = sum(counts.values())
    return draw.task(
        {
            "en": [
                "How many entries of the level ERROR do the .log files in {folder} have together? Note it in {target}.",
                "total number of ERROR level entries across {folder}/*.log -> {target}",
                "Please count the ERROR entries of all logs (*.log) in the folder {folder} and keep the total "
                "in {target}.",
                "{target} should say how often the level ERROR occurs in the .log files of {folder}, all files "
                "taken together.",
            ],
            "de": [
                "Wie viele Einträge der Stufe ERROR haben die .log-Dateien in {folder} zusammen? Die Zahl in {target}."
            ],
            "fr": ["Compte les entrées ERROR de tous les .log du dossier {folder} et note le total dans {target}."],
        },
        folder=folder,
        target=target,
        files=files,
        steps=[
            shell(f"awk '$3 == \"ERROR\"' {folder}/*.log | wc -l | tee {target}"),
            finish(f"The logs in {folder} have {total} ERROR entries; {target} has the number."),
        ],
        check=Check(files={target: str(total)}),
    )
